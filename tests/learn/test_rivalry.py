"""Sibling Rivalry: the reward, and which sibling trains the policy, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from edl.learn.distance import EuclideanDistance, NormalisedDistance
from edl.learn.rivalry import antigoal, rival_reward, rival_weight
from edl.nets.normalise import Normaliser
from tests.learn.episodes import episode

GOAL = [4.0, 0.0]
RADIUS = 0.15


def rewards(path, rival, name="shipped", **more):
    return rival_reward(name, EuclideanDistance(), RADIUS, episode(path, GOAL, rival=rival, **more))


def trains(end, rival, epsilon=1.0):
    return float(rival_weight(EuclideanDistance(), RADIUS, epsilon, episode([[0.0, 0.0], end], GOAL, rival=rival)))


@pytest.mark.parametrize(
    ("rival", "expected"),
    [
        ([1.0, 0.0], -3.0 + 0.0),  # both are stuck in one place: minus the distance to the goal
        ([1.0, 2.0], -3.0 + 2.0),  # apart: plus the distance to the rival
        ([1.0, 9.0], 0.0),  # never more than at the goal
    ],
)
def test_the_last_step_is_rewarded_for_the_distance_to_the_rival(rival, expected):
    np.testing.assert_allclose(rewards([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], rival), [0.0, expected], atol=1e-5)


@pytest.mark.parametrize(
    ("rival", "expected"),
    [([4.0, 0.15], [4.0, 0.0]), ([4.0, 0.16], [4.0, 0.16]), ([1.0, 0.0], [1.0, 0.0])],
)
def test_the_antigoal_is_the_goal_if_the_rival_succeeded(rival, expected):
    met = episode([[0.0, 0.0], [1.0, 0.0]], GOAL, rival=rival)
    np.testing.assert_allclose(antigoal(EuclideanDistance(), RADIUS, met), expected)


@pytest.mark.parametrize(("rival", "expected"), [([4.0, 0.1], 0.0), ([4.0, 0.2], -3.0 + np.hypot(3.0, 0.2))])
def test_the_terminal_reward_is_zero_if_the_rival_succeeded(rival, expected):
    # The rival outside of the radius is 0.007 farther away than the goal, and the reward is never positive.
    np.testing.assert_allclose(rewards([[0.0, 0.0], [1.0, 0.0]], rival), [min(0.0, expected)], atol=1e-5)
    nearer = rewards([[0.0, 0.0], [1.0, 0.6]], [3.9, 0.05])  # within the radius, and 0.1 nearer than the goal
    np.testing.assert_allclose(nearer, [0.0], atol=1e-5)


def test_steps_within_the_radius_get_the_bonus_of_the_shipped_reward():
    path = [[0.0, 0.0], [4.0, 0.1], [4.0, 0.2], [4.0, 0.0]]
    np.testing.assert_allclose(rewards(path, [0.0, 0.0]), [1.0, 0.0, 1.0], atol=1e-5)


def test_an_episode_that_ends_early_gets_the_terminal_reward_at_its_last_valid_step():
    path = [[0.0, 0.0], [1.0, 0.0], [4.0, 0.0], [4.0, 0.0]]
    np.testing.assert_allclose(rewards(path, [1.0, 1.0], length=1), [-3.0 + 1.0, 0.0, 0.0], atol=1e-5)


def test_the_score_of_the_log_likelihood_is_half_the_square():
    end = rewards([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0], "log_likelihood")
    np.testing.assert_allclose(end, [-0.5 * 9 + 0.5 * 4], atol=1e-5)
    np.testing.assert_array_equal(
        rewards([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0], "progress"), rewards([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0])
    )


@pytest.mark.parametrize(
    ("end", "rival", "expected"),
    [
        ([1.0, 0.0], [3.0, 0.0], 1.0),  # the farther one always trains
        ([3.0, 0.0], [1.0, 0.0], 0.0),  # the closer one does not
        ([2.0, 0.0], [1.5, 0.0], 1.0),  # unless they ended together
        ([4.0, 0.1], [1.0, 0.0], 1.0),  # or it succeeded
        ([4.0, 0.2], [1.0, 0.0], 0.0),  # it did not succeed here
        ([4.0, 2.0], [4.0, -2.0], 1.0),  # at equal distance both train
        ([4.0, 0.14], [4.0, -0.1], 1.0),  # both succeeded
        ([4.0, 0.16], [4.0, 1.12], 1.0),  # they ended 0.96 apart, which is less than epsilon
        ([4.0, 0.14], [4.0, 1.13], 1.0),  # it succeeded
        ([4.0, 0.3], [4.0, -0.1], 1.0),  # the farther one, whose rival succeeded
    ],
)
def test_which_sibling_trains(end, rival, expected):
    assert trains(end, rival) == expected


def test_at_least_one_of_two_siblings_trains():
    ends = np.random.default_rng(0).uniform(-5, 5, (40, 2, 2))
    weights = np.array([[trains(a, b, 0.5), trains(b, a, 0.5)] for a, b in ends])
    assert (weights.sum(axis=1) >= 1).all()
    farther = np.argmax(np.linalg.norm(ends - GOAL, axis=-1), axis=1)
    assert (weights[np.arange(40), farther] == 1).all()
    assert weights.sum() < 50  # the closer sibling rarely trains


def test_both_siblings_train_if_epsilon_is_infinite():
    assert trains([3.0, 0.0], [1.0, 0.0], epsilon=jnp.inf) == 1.0


@pytest.mark.parametrize(
    ("end", "rival", "epsilon", "expected"),
    [
        ([2.0, 0.0], [4.0, 3.0], 0.1, 0.0),  # 0.2 and 3 standard deviations from the goal: the closer one
        ([4.0, 3.0], [2.0, 0.0], 0.1, 1.0),
        ([2.0, 0.0], [8.0, 0.5], 0.1, 0.0),  # 0.2 and 0.64
        ([2.0, 0.0], [8.0, 0.5], 1.0, 1.0),  # they ended 0.78 apart
    ],
)
def test_siblings_are_compared_by_the_distance_of_the_reward(end, rival, epsilon, expected):
    distance = NormalisedDistance(Normaliser(jnp.zeros(2), jnp.array([10.0, 1.0])))
    met = episode([[0.0, 0.0], end], GOAL, rival=rival)
    assert rival_weight(distance, RADIUS, epsilon, met) == expected

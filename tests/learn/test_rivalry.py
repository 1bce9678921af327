"""Sibling Rivalry: reward and choice of siblings, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from edl.learn.distance import Euclidean
from edl.learn.rivalry import rival_reward, rival_weight
from tests.learn.episodes import episode

GOAL = [4.0, 0.0]
RADIUS = 0.15


def paid(path, rival, name="shipped", **more):
    return rival_reward(name, Euclidean(), RADIUS, episode(path, GOAL, rival=rival, **more))


def trains(end, rival, epsilon=1.0):
    return float(rival_weight(Euclidean(), RADIUS, epsilon, episode([[0.0, 0.0], end], GOAL, rival=rival)))


@pytest.mark.parametrize(
    ("rival", "expected"),
    [
        ([1.0, 0.0], -3.0 + 0.0),  # both are stuck in one place: no more than the distance is left
        ([1.0, 2.0], -3.0 + 2.0),  # apart: paid for being away from the rival
        ([1.0, 9.0], 0.0),  # and never more than for being at the goal
    ],
)
def test_the_end_is_paid_for_leaving_the_rival(rival, expected):
    np.testing.assert_allclose(paid([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], rival), [0.0, expected], atol=1e-5)


def test_steps_within_the_radius_are_paid_as_in_the_shipped_reward():
    path = [[0.0, 0.0], [4.0, 0.1], [4.0, 0.2], [4.0, 0.0]]
    np.testing.assert_allclose(paid(path, [0.0, 0.0]), [1.0, 0.0, 1.0], atol=1e-5)


def test_an_episode_that_ends_early_is_paid_at_its_end():
    path = [[0.0, 0.0], [1.0, 0.0], [4.0, 0.0], [4.0, 0.0]]
    np.testing.assert_allclose(paid(path, [1.0, 1.0], length=1), [-3.0 + 1.0, 0.0, 0.0], atol=1e-5)


def test_the_score_of_the_log_likelihood_is_half_the_square():
    end = paid([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0], "log_likelihood")
    np.testing.assert_allclose(end, [-0.5 * 9 + 0.5 * 4], atol=1e-5)
    np.testing.assert_array_equal(
        paid([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0], "progress"), paid([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0])
    )


@pytest.mark.parametrize(
    ("end", "rival", "expected"),
    [
        ([1.0, 0.0], [3.0, 0.0], 1.0),  # the farther one always trains
        ([3.0, 0.0], [1.0, 0.0], 0.0),  # the closer one does not
        ([2.0, 0.0], [1.5, 0.0], 1.0),  # unless they ended together
        ([4.0, 0.1], [1.0, 0.0], 1.0),  # or it succeeded
        ([4.0, 0.2], [1.0, 0.0], 0.0),  # which it did not here
        ([4.0, 2.0], [4.0, -2.0], 1.0),  # at equal distance both train
    ],
)
def test_which_sibling_trains(end, rival, expected):
    assert trains(end, rival) == expected


def test_of_two_siblings_at_least_one_trains():
    ends = np.random.default_rng(0).uniform(-5, 5, (40, 2, 2))
    weights = np.array([[trains(a, b, 0.5), trains(b, a, 0.5)] for a, b in ends])
    assert (weights.sum(axis=1) >= 1).all()
    farther = np.argmax(np.linalg.norm(ends - GOAL, axis=-1), axis=1)
    assert (weights[np.arange(40), farther] == 1).all()
    assert weights.sum() < 50  # and closer ones rarely do


def test_everyone_trains_where_epsilon_is_wide():
    assert trains([3.0, 0.0], [1.0, 0.0], epsilon=jnp.inf) == 1.0

"""The rewards of stage 3, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.learn.distance import Distance, EuclideanDistance
from edl.learn.reward import SCORES, RewardTerms, posterior_reward, reward
from edl.nets.normalise import identity_normaliser
from tests.learn.episodes import episode

PATH = [[0.0, 0.0], [0.0, 4.0], [3.0, 4.0], [3.0, 4.1]]
GOAL = [3.0, 4.0]
TERMS = RewardTerms(radius=0.15)
DISTANCES = np.array([5.0, 3.0, 0.0, 0.1])


class DoubledDistance(Distance):
    """Twice the Euclidean distance."""

    def along(self, path, goal):
        return 2 * EuclideanDistance().along(path, goal)


def test_progress_in_another_unit_and_a_bonus_near_the_goal():
    rewards = reward("progress", EuclideanDistance(), RewardTerms(0.05, bonus=0.25, unit=2.0), episode(PATH, GOAL))
    np.testing.assert_allclose(rewards, [1.0, 1.5 + 0.25, -0.05], atol=1e-5)


def test_euclidean_distance_of_every_state_of_a_path():
    distances = EuclideanDistance().along(jnp.array(PATH), jnp.array(GOAL))
    np.testing.assert_allclose(distances, DISTANCES, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log_likelihood", [-4.5, 0.0, -0.005]),
        ("shipped", [-3.0, 1.0, 0.9]),
        ("progress", [2.0, 3.0, -0.1]),
    ],
)
def test_rewards_by_hand(name, expected):
    np.testing.assert_allclose(reward(name, EuclideanDistance(), TERMS, episode(PATH, GOAL)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log_likelihood", [-18.0, 0.0, -0.02]),
        ("shipped", [-6.0, 1.0, -0.2]),
        ("progress", [4.0, 6.0, -0.2]),
    ],
)
def test_rewards_work_with_any_distance(name, expected):
    np.testing.assert_allclose(reward(name, DoubledDistance(), TERMS, episode(PATH, GOAL)), expected, atol=1e-5)


def test_the_shipped_reward_has_a_bonus_within_the_radius():
    path = [[0.0, 0.0], [0.14, 0.0], [0.16, 0.0]]
    rewards = reward("shipped", EuclideanDistance(), TERMS, episode(path, [0.0, 0.0]))
    np.testing.assert_allclose(rewards, [1 - 0.14, -0.16], atol=1e-5)


def test_progress_adds_up_to_the_change_of_distance():
    path = np.random.default_rng(0).normal(size=(30, 2))
    total = jnp.sum(reward("progress", EuclideanDistance(), TERMS, episode(path, GOAL)))
    ends = np.linalg.norm(path[[0, -1]] - GOAL, axis=1)
    assert total == pytest.approx(ends[0] - ends[1], abs=1e-4)


def test_every_reward_is_highest_at_the_goal():
    ends = np.random.default_rng(1).normal(size=(50, 2))
    ends[17] = GOAL
    for name in SCORES:
        last = [float(reward(name, EuclideanDistance(), TERMS, episode([[0.0, 0.0], end], GOAL))[-1]) for end in ends]
        assert np.argmax(last) == 17


def test_the_posterior_reward_is_one_in_the_region_of_the_skill_and_zero_outside():
    codes = jnp.array([[3.0, 4.0], [0.0, 3.9]])
    skills = SkillModel(codes, codes, codes, jnp.full(2, 0.5), None, None, identity_normaliser(2))
    np.testing.assert_array_equal(posterior_reward(skills, episode(PATH, GOAL)), [0.0, 1.0, 1.0])

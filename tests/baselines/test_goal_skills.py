"""Example goals are spread over the candidates, and goal metrics use the last valid state."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.baselines.discern import DiscernConfig, discern
from edl.baselines.goal_skills import initial_centroids, medoids
from edl.baselines.skewfit import SkewFitConfig, skewfit
from edl.config import ConfigError
from edl.envs.clock import timed_env
from edl.envs.gridworld import gridworld
from edl.envs.rollout import Episode, Skill
from edl.explore.hindsight import HindsightConfig, hindsight
from edl.learn import LearnConfig, learn
from edl.learn.distance import EuclideanDistance
from edl.objective import goal_metrics
from edl.rl.sac import SACConfig


def sac_learner(env, config):
    skills = SkillModel.from_goals([[0.0, 1.0], [1.0, 0.0]])
    return learn(env, skills, EuclideanDistance(), dataclasses.replace(config, algorithm="sac"))


def test_farthest_points_by_hand():
    points = jnp.array([[0.0], [1.0], [2.0], [10.0]])  # the mean is 3.25
    np.testing.assert_array_equal(initial_centroids(points, 3)[:, 0], [10, 0, 2])


def test_medoids_are_one_member_of_each_cluster():
    centres = jnp.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    noise = jax.random.normal(jax.random.key(0), (3, 50, 2)) * 0.1
    points = (centres[:, None] + noise).reshape(-1, 2)
    chosen = np.asarray(medoids(points, 3))
    assert {tuple(row) for row in chosen} <= {tuple(row) for row in np.asarray(points)}
    np.testing.assert_allclose(chosen[np.lexsort(chosen.round().T)], [[0, 0], [5, 0], [0, 5]], atol=0.1)


def test_success_means_ending_near_the_goal():
    features = jnp.zeros((2, 3, 2)).at[:, 1].set(jnp.array([3.0, 4.0]))  # both go to (3, 4), then back to 0
    valid = jnp.array([[True, True], [True, False]])
    goal = jnp.array([[0.0, 0.4], [0.0, 0.0]])
    skill = Skill(goal, jnp.full(2, -1), goal)
    blank = jnp.zeros((2, 2), bool)
    found = goal_metrics(Episode(features, features, jnp.zeros((2, 2)), blank, blank, valid, skill))
    np.testing.assert_allclose(found["goal_distance"], (0.4 + 5) / 2, rtol=1e-6)
    assert found["goal_success"] == 0.5


@pytest.mark.parametrize(
    ("build", "config"),
    [(discern, DiscernConfig), (skewfit, SkewFitConfig), (hindsight, HindsightConfig), (sac_learner, LearnConfig)],
)
def test_methods_that_learn_from_whole_episodes_reject_replayed_steps(build, config):
    with pytest.raises(ConfigError, match=r"sac.objective_batch_size must be 0 \(got 64\)"):
        build(timed_env(gridworld(5, 5, 9)), config(sac=SACConfig(objective_batch_size=64)))

"""A goal is reached within 0.5 cells, 1 unit or 0.5 standard deviations: learning, metrics and texts agree."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.envs.maze import maze
from edl.envs.success import Success, success_of
from edl.evaluate.metrics import METRICS, within_text
from edl.interop.env_names import make_env
from edl.learn import LearnConfig
from edl.learn.distance import EuclideanDistance
from edl.learn.learn import SkillCounts, edl_objective
from edl.nets.normalise import Normaliser
from tests.envs.mjx.models import BALL, write
from tests.explore.thruster import Thruster
from tests.learn.episodes import episode

GOALS = jnp.array([[3.0, 0.0], [0.0, 3.0]])
SKILLS = SkillModel(GOALS, GOALS, GOALS, jnp.ones(2) / 2, None, None, Normaliser(jnp.zeros(2), jnp.full(2, 4.0)))


def ball(folder):
    pytest.importorskip("mujoco.mjx")
    return make_env(write(folder, BALL), features="x,y", horizon=4)


def test_the_unit_depends_on_the_env(tmp_path):
    assert success_of(maze("square")) == Success(0.5, "cells")
    assert success_of(Thruster()) == Success(0.5, "standard deviations")
    assert success_of(ball(tmp_path)) == Success(1.0, "units")


def test_learning_counts_a_success_within_the_same_distance(tmp_path):
    """The first skill ends 0.8 from its goal, which is 0.2 standard deviations: no success in a maze."""
    config = LearnConfig(distance="euclidean")
    ends = [episode([[0.0, 0.0], [2.2, 0.0]], GOALS[0]), episode([[0.0, 0.0], [0.0, 3.0]], GOALS[1])]
    episodes = jax.tree.map(lambda *x: jnp.stack(x), *ends)
    skill = episodes.skill._replace(index=jnp.arange(2))
    episodes = episodes._replace(truncated=jnp.ones_like(episodes.truncated), skill=skill)
    found = {}
    for name, env in (("maze", maze("square")), ("units", ball(tmp_path)), ("none", Thruster())):
        objective = edl_objective(SKILLS, EuclideanDistance(), config, env)
        _, metrics = objective.update(jax.random.key(0), SkillCounts(jnp.zeros(2), jnp.int32(0)), episodes)
        found[name] = [float(metrics[key]) for key in ("worst_skill_success", "goal_distance")]
    np.testing.assert_allclose(found["maze"], [0.0, 0.4], atol=1e-5)
    np.testing.assert_allclose(found["units"], [0.1, 0.4], atol=1e-5)
    np.testing.assert_allclose(found["none"], [0.1, 0.1], atol=1e-5)


def test_texts_state_the_distance_with_its_unit():
    assert within_text(1.0, "units") == "1 unit"
    assert "within 1 unit of" in METRICS["goal_success"].describe("units", 1.0)
    assert "within 0.5 standard deviations of" in METRICS["goal_success"].describe("standard deviations")


def test_progress_is_divided_by_the_spread_of_the_states(tmp_path):
    config = dataclasses.replace(LearnConfig(distance="euclidean"), scale_rewards=True, bonus=2.0)
    path = episode([[0.0, 0.0], [1.0, 0.0], [2.5, 0.0]], GOALS[0])
    rewards = edl_objective(SKILLS, EuclideanDistance(), config, ball(tmp_path)).reward(None, path)
    # Steps of 1 and 1.5, in units of 4; the second one ends within 1 of the goal, in an episode of 4 steps.
    np.testing.assert_allclose(rewards, [0.25, 0.375 + 2.0 / 4], rtol=1e-5)

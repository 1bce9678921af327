"""Planning with skills, with known dynamics: every skill is a displacement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.baselines.dads import SkillDynamics
from edl.baselines.dads_planning import (
    PlanConfig,
    mppi_mean,
    plan,
    predict_path,
    predicted_return,
    reach_goal,
    sample_candidate,
)
from edl.envs.maze import maze
from edl.nets.distributions import TanhGaussian
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from tests.compiling import jit

MOVES = {
    "continuous": 0.5 * jnp.eye(2),
    "discrete": 0.5 * jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]),
}
"""Displacement per step: the code times this matrix."""
CONFIG = PlanConfig(length=3, hold=2, candidates=64, refinements=8)


def dynamics(kind):
    """Skill dynamics with one component, whose mean is the displacement of the skill."""
    displacement = jnp.concatenate([jnp.zeros((2, 2)), MOVES[kind]])
    weight = jnp.concatenate([jnp.zeros((len(displacement), 1)), displacement], axis=1)
    return SkillDynamics(
        MLP([weight], [jnp.zeros(3)]),
        identity_normaliser(2),
        identity_normaliser(2),
        jnp.float32(1.0),
        discrete=kind == "discrete",
    )


def policy(kind):
    """A policy that follows the dynamics almost without noise."""
    space = maze("square").action_space
    means = jnp.arctanh(MOVES[kind] / space.high)  # exact for one-hot codes, close enough for others
    weight = jnp.concatenate([jnp.zeros((2, 2)), means])
    actor = MLP([jnp.concatenate([weight, jnp.zeros_like(weight)], axis=1)], [jnp.array([0.0, 0.0, -5.0, -5.0])])
    distribution = TanhGaussian(low=space.low, high=space.high, size=4)
    return SkillPolicy(actor, identity_normaliser(2), distribution, jnp.eye(len(means)), model=dynamics(kind))


def test_predictions_by_hand():
    codes = jnp.array([[1.0, 0.0], [0.0, -1.0]])
    path = predict_path(dynamics("continuous"), jnp.array([1.0, 1.0]), codes, 2)
    np.testing.assert_allclose(path, [[1.5, 1.0], [2.0, 1.0], [2.0, 0.5], [2.0, 0.0]], atol=1e-6)
    value = predicted_return(dynamics("continuous"), jnp.array([1.0, 1.0]), codes, jnp.array([2.0, 0.0]), 2)
    assert value == pytest.approx(-(np.sqrt(1.25) + 1.0 + 0.5 + 0.0), rel=1e-5)


def test_the_mean_moves_towards_candidates_with_high_return():
    candidates = jnp.array([[[0.0]], [[1.0]], [[4.0]]])
    weights = np.exp([-2.0, -1.0, 0.0])
    mean = mppi_mean(candidates, jnp.array([-30.0, -20.0, -10.0]), 2.0)
    assert mean[0, 0] == pytest.approx(weights @ [0.0, 1.0, 4.0] / weights.sum(), rel=1e-5)


def test_candidates_are_one_hot_or_in_the_box():
    keys = jax.random.split(jax.random.key(0), 200)
    hot = jax.vmap(lambda key: sample_candidate(key, jnp.array([[0.0, 0.25, 0.75]]), True, 1.0))(keys)
    np.testing.assert_array_equal(hot.sum(axis=2), 1)
    np.testing.assert_allclose(hot.mean(axis=0)[0], [0, 0.25, 0.75], atol=0.1)
    boxed = jax.vmap(lambda key: sample_candidate(key, jnp.full((2, 3), 0.9), False, 1.0))(keys)
    assert -1 <= boxed.min() < 0 < boxed.max() == 1


@pytest.mark.parametrize("kind", MOVES)
def test_the_plan_leads_to_the_goal(kind):
    goal, start = jnp.array([1.0, -1.0]), jnp.zeros(2)
    size = len(MOVES[kind])

    @jit
    def outcome(key):
        codes = plan(key, dynamics(kind), start, goal, size, CONFIG)
        return codes, predict_path(dynamics(kind), start, codes, CONFIG.hold)

    codes, path = outcome(jax.random.key(1))
    assert codes.shape == (3, size)
    assert jnp.linalg.norm(path - goal, axis=1).min() < 0.4
    if kind == "discrete":
        np.testing.assert_array_equal(codes.max(axis=1), 1)
        np.testing.assert_array_equal(codes.sum(axis=1), 1)


@pytest.mark.parametrize("kind", MOVES)
def test_planned_skills_reach_goals_that_were_unknown_in_training(kind):
    env = maze("corridor_center", horizon=12)
    goals = jnp.array([[-2.0, 0.0], [2.0, 0.0]])

    @jit
    def play(keys):
        return jax.vmap(lambda key, goal: reach_goal(key, env, policy(kind), goal, CONFIG))(keys, goals)

    episodes = play(jax.random.split(jax.random.key(2), 2))
    closest = jnp.linalg.norm(episodes.features - goals[:, None], axis=-1).min(axis=1)
    assert (closest < 0.5).all(), closest
    np.testing.assert_array_equal(episodes.skill.goal, goals)

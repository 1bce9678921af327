"""DADS: the density of the skill dynamics and the reward by hand; training makes skills predictable."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.dads import DADSConfig, SkillDynamics, all_others, dads, dads_reward, dynamics_loss
from edl.baselines.model_fitting import Moves, moves_of
from edl.baselines.skill_priors import example_box_points, sample_in_box
from edl.envs.layouts import parse
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser
from edl.program import run_program
from tests.baselines.probe import TINY_SAC
from tests.compiling import jit

SMALL = dataclasses.replace(TINY_SAC, iterations=150, entropy_weight=0.02)
BORDER, EMPTY, BETWEEN = "+-+-+-+-+-+", "|         |", "+ + + + + +"
OPEN = parse("\n".join([BORDER, *[EMPTY, BETWEEN] * 2, "|    S    |", *[BETWEEN, EMPTY] * 2, BORDER]), "open")
"""5 x 5 cells without inner walls, with the start in the middle."""
# One dimension, one number per skill, two components: (logit, mean) of each, computed from (whitened s, z).
NET = MLP([jnp.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])], [jnp.array([0.5, 0.0, 0.0, 0.0])])
DYNAMICS = SkillDynamics(
    net=NET,
    states=Normaliser(jnp.array([1.0]), jnp.array([2.0])),
    changes=Normaliser(jnp.array([0.5]), jnp.array([4.0])),
    deviation=jnp.float32(0.5),
    discrete=False,
)


def by_hand(before, after, code):
    """The density of `DYNAMICS` for the whitened change, and its mean."""
    state, change = (before - 1) / 2, (after - before - 0.5) / 4
    logits, means = np.array([0.5, code]), np.array([state, 2 * code])
    weights = np.exp(logits) / np.exp(logits).sum()
    densities = np.exp(-0.5 * ((change - means) / 0.5) ** 2) / (0.5 * np.sqrt(2 * np.pi))
    return np.log(weights @ densities), before + 0.5 + 4 * weights @ means


@pytest.mark.parametrize(("before", "after", "code"), [(3.0, 4.0, 0.2), (-1.0, 2.0, -0.7)])
def test_skill_dynamics_by_hand(before, after, code):
    at = [jnp.array([x]) for x in (before, after, code)]
    log_q, expected = by_hand(before, after, code)
    assert DYNAMICS.log_prob(*at) == pytest.approx(log_q, rel=1e-5)
    assert DYNAMICS.predict(at[0], at[2])[0] == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_the_log_likelihood_of_the_moves_with_weight():
    rows = Moves(
        before=jnp.array([[3.0], [-1.0], [5.0]]),
        after=jnp.array([[4.0], [2.0], [5.0]]),
        code=jnp.array([[0.2], [-0.7], [0.0]]),
        weight=jnp.array([1.0, 1.0, 0.0]),
    )
    loss, _ = dynamics_loss(DYNAMICS, rows)
    assert loss == pytest.approx(-(by_hand(3.0, 4.0, 0.2)[0] + by_hand(-1.0, 2.0, -0.7)[0]) / 2, rel=1e-5)


def test_the_reward_by_hand():
    log_q = jnp.log(jnp.array([0.5, 0.25, 0.125]))
    assert dads_reward(log_q) == pytest.approx(np.log(3) - np.log(1 + 0.5 + 0.25), rel=1e-5)
    assert dads_reward(jnp.zeros(7)) == pytest.approx(0.0, abs=1e-6)
    assert dads_reward(jnp.array([0.0, -1e9, -1e9])) == pytest.approx(np.log(3))
    assert dads_reward(jnp.array([-1e9, 0.0])) == pytest.approx(np.log(2) - 50)  # clipped, so finite


def test_the_alternatives_are_all_other_skills_or_points_of_the_box():
    np.testing.assert_array_equal(all_others(jnp.array([0.0, 1.0, 0.0])), [[0, 0, 1], [1, 0, 0]])
    drawn = jax.vmap(lambda key: sample_in_box(key, 2).code)(jax.random.split(jax.random.key(0), 300))
    np.testing.assert_allclose(drawn.min(), -1, atol=0.05)
    np.testing.assert_allclose(drawn.max(), 1, atol=0.05)
    assert len(np.unique(example_box_points(10, 2), axis=0)) == 10


def test_moves_are_pairs_of_successive_states_with_the_skill_of_their_episode():
    episodes = Episode(
        observations=jnp.zeros((2, 3, 1)),
        features=jnp.arange(6.0).reshape(2, 3, 1),
        actions=jnp.zeros((2, 2, 1)),
        terminated=jnp.zeros((2, 2), bool),
        truncated=jnp.zeros((2, 2), bool),
        valid=jnp.array([[True, True], [True, False]]),
        skill=Skill(jnp.array([[7.0], [8.0]]), jnp.array([-1, -1])),
    )
    rows = moves_of(episodes)
    np.testing.assert_array_equal(rows.before[:, 0], [0, 1, 3, 4])
    np.testing.assert_array_equal(rows.after[:, 0], [1, 2, 4, 5])
    np.testing.assert_array_equal(rows.code[:, 0], [7, 7, 8, 8])
    np.testing.assert_array_equal(rows.weight, [1, 1, 1, 0])


@pytest.mark.slow
@pytest.mark.parametrize("skills", ["discrete", pytest.param("continuous", marks=pytest.mark.slow)])
def test_the_objective_increases_and_skills_become_distinguishable(skills):
    config = DADSConfig(
        num_skills=4, skills=skills, alternatives=8, hidden=(32,), learning_rate=3e-3, deviation=0.3, sac=SMALL
    )
    program = dads(maze(OPEN, horizon=10), config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    returns = np.asarray(metrics["return"]) / 10
    assert returns[-5:].mean() > returns[:3].mean() + 0.5
    assert returns[-5:].mean() > 0.5
    codes = jnp.eye(4) if skills == "discrete" else jnp.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    changes = jax.vmap(lambda code: policy.model.predict(jnp.zeros(2), code))(codes)
    gaps = jnp.linalg.norm(changes[:, None] - changes[None], axis=-1) + jnp.eye(4)
    assert gaps.min() > 0.3

"""VISR: reward, loss and task inference by hand; training makes tasks predictable from the states they lead to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import Moves
from edl.baselines.visr import (
    VISRConfig,
    infer_task,
    neighbours,
    phi,
    posterior_loss,
    spread_directions,
    visr,
    visr_objective,
)
from edl.config import ConfigError
from edl.envs.rollout import Skill, rollout
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.nets.optim import Trained
from edl.program import run_program
from edl.rl.sac import SACConfig
from tests.baselines.probe import ENV
from tests.compiling import jit

TINY = VISRConfig(
    num_skills=4,
    dimensions=2,
    hidden=(32,),
    learning_rate=3e-3,
    minibatches=8,
    sac=SACConfig(
        iterations=80, rollouts=16, update_every=4, capacity=5000, warmup=100, objective_batch_size=512, batch_size=64,
        hidden=(32, 32), gamma=0.9, learning_rate=3e-3, tau=0.02, entropy_weight=0.05,
    ),
)  # fmt: skip
PLAIN = MLP([jnp.eye(2)], [jnp.zeros(2)])
"""phi(s) = s / ||s||."""


def policy_with(model):
    actor = MLP([jnp.zeros((4, 1))], [jnp.zeros(1)])
    return SkillPolicy(actor, identity_normaliser(2), Categorical(1), jnp.eye(2), model=model)


def test_reward_and_cumulants_by_hand():
    objective, state = visr_objective(ENV, TINY), Trained(PLAIN, ())
    skill = Skill(jnp.array([0.6, 0.8]), jnp.int32(-1))
    episode = rollout(jax.random.key(0), ENV, lambda *_: (jnp.int32(1), jnp.zeros(())), skill)  # to the right
    np.testing.assert_allclose(objective.reward(state, episode), np.full(9, 0.6), rtol=1e-5)
    np.testing.assert_allclose(objective.linear.cumulants(state, episode), [[1.0, 0.0]] * 9, atol=1e-5)


def test_the_loss_by_hand_ignores_rows_with_zero_weight():
    states = jnp.array([[3.0, 4.0], [0.0, 2.0], [1.0, 1.0]])
    codes = jnp.array([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]])
    loss, metrics = posterior_loss(PLAIN, Moves(states, states, codes, jnp.array([1.0, 1.0, 0.0])))
    assert loss == pytest.approx(-(0.8 + 0.0) / 2)
    assert metrics["alignment"] == -loss


def test_neighbours_are_unit_vectors_around_each_task():
    codes = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    found = neighbours(codes, 2, 1.0)
    assert found.shape == (2, 3, 2)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found[1, 0], [half, half], rtol=1e-5)  # w + the task of the row two before
    np.testing.assert_allclose(np.linalg.norm(neighbours(codes, 2, 0.5), axis=-1), 1.0, rtol=1e-5)


def test_directions_are_unit_vectors_spread_over_the_sphere():
    found = np.asarray(spread_directions(4, 2))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
    angles = np.sort(np.arctan2(found[:, 1], found[:, 0]))
    np.testing.assert_allclose(np.diff(angles), np.pi / 2, atol=0.35)


def test_the_inferred_task_is_the_least_squares_solution():
    states = jax.random.normal(jax.random.key(0), (50, 2))
    noise = 0.1 * jax.random.normal(jax.random.key(1), (50,))
    features = np.asarray(jax.vmap(phi, (None, 0))(PLAIN, states), np.float64)
    rewards = 3 * features @ [0.6, -0.8] + np.asarray(noise)
    expected = np.linalg.solve(features.T @ features, features.T @ rewards)
    found = infer_task(policy_with(PLAIN), states, jnp.asarray(rewards, jnp.float32))
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), rtol=1e-4)
    np.testing.assert_allclose(found, [0.6, -0.8], atol=0.05)
    with pytest.raises(ConfigError, match="phi"):
        infer_task(policy_with(None), states, jnp.zeros(50))


@pytest.fixture(scope="module")
def trained():
    program = visr(ENV, TINY)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    return policy, jax.tree.map(np.asarray, metrics)


@pytest.mark.slow
def test_the_objective_increases_and_states_predict_their_task(trained):
    _, metrics = trained
    assert metrics["return"][-10:].mean() > metrics["return"][:10].mean() + 2  # the maximum is 9
    assert metrics["alignment"][-10:].mean() > 0.5


@pytest.mark.slow
def test_skills_are_distinguishable_and_an_inferred_task_leads_to_its_reward(trained):
    policy, _ = trained

    @jit
    def ends(codes):
        def play(key, code):
            act = lambda key, observation, code: (policy.act(key, observation, code), jnp.zeros(()))  # noqa: E731
            return rollout(key, ENV, act, Skill(code, jnp.int32(-1))).last

        keys = jax.random.split(jax.random.key(5), (codes.shape[0], 20))
        return jax.vmap(jax.vmap(play, (0, None)), (0, 0))(keys, codes)

    last = np.asarray(ends(policy.codes))
    within = np.mean(np.linalg.norm(last - last.mean(axis=1, keepdims=True), axis=-1))
    between = np.mean(np.linalg.norm(last.mean(axis=1) - last.mean(axis=(0, 1)), axis=-1))
    assert between > within

    grid = jnp.stack(jnp.meshgrid(jnp.arange(-2.0, 3), jnp.arange(-2.0, 3)), axis=-1).reshape(-1, 2)
    corner = jnp.array([2.0, 2.0])
    task = infer_task(policy, grid, -jnp.linalg.norm(grid - corner, axis=1))
    reached = np.asarray(ends(task[None]))[0]
    assert np.mean(np.linalg.norm(reached - corner, axis=1)) < np.mean(np.linalg.norm(last - corner, axis=-1)) - 0.5

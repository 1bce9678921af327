"""SNN4HRL: its grid, counts, reward and input by hand; training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.snn4hrl import PSEUDO_COUNT, SNN4HRLConfig, bilinear, cell_index, log_posterior, snn4hrl, speeds
from edl.envs.gridworld import gridworld
from edl.rl.ppo import PPOConfig
from tests.baselines.probe import increases, learn
from tests.compiling import jit
from tests.learn.episodes import episode


def test_bilinear_integration_by_hand():
    np.testing.assert_array_equal(
        bilinear(jnp.array([2.0, 3.0]), jnp.array([0.0, 1.0])), [2, 3, 0, 1, 0.0, 2.0, 0.0, 3.0]
    )


def test_speed_by_hand():
    np.testing.assert_allclose(speeds(episode([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])), [5.0, 0.0])


def test_posterior_by_hand():
    counts = jnp.array([3.0, 1.0, 0.0])
    assert np.isclose(log_posterior(counts, jnp.int32(0)), np.log(0.75), atol=1e-3)
    assert np.isclose(log_posterior(counts, jnp.int32(2)), np.log(PSEUDO_COUNT / (4 + 3 * PSEUDO_COUNT)), rtol=1e-5)
    assert np.isclose(log_posterior(jnp.zeros(3), jnp.int32(1)), np.log(1 / 3))


def test_cells_are_distinct_within_the_grid_and_wrap_around_outside():
    side = np.arange(-10, 10) / 2 + 0.25
    states = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    numbers = jax.vmap(cell_index, (0, None, None))(jnp.asarray(states, jnp.float32), 2.0, 20)
    assert sorted(np.asarray(numbers)) == list(range(400))
    assert cell_index(jnp.array([0.25, 0.25]), 2.0, 20) == cell_index(jnp.array([10.25, -9.75]), 2.0, 20)
    assert cell_index(jnp.array([0.3]), 5.0, 8) == 1


@pytest.fixture(scope="module")
def one_step():
    """State and metrics after the first iteration with two skills."""
    ppo = PPOConfig(iterations=1, rollouts=8, minibatches=2, epochs=1, hidden=(4,))
    config = SNN4HRLConfig(num_skills=2, bonus_weight=0.5, mesh_density=1.0, cells=4, ppo=ppo)
    program = snn4hrl(gridworld(3, 3, 5), config)
    return jit(lambda key: program.step(program.init(key), key))(jax.random.key(0))


def test_rewards_use_the_counts_of_the_same_batch(one_step):
    """The mean of log p_hat(z|c) over the counted visits is the negative conditional entropy H(Z|C)."""
    state, metrics = one_step
    counts = np.asarray(state.objective)
    assert counts.sum() == 8 * 5
    assert (counts.sum(axis=1) > 0).sum() <= 9
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    log_share = np.log(np.where(share > 0, share, 1.0))
    minus_entropy = np.sum(counts * log_share) / counts.sum()
    assert np.isclose(metrics["information"], minus_entropy + np.log(2), atol=2e-3)
    assert np.isclose(metrics["return"], 5 * (metrics["speed"] + 0.5 * minus_entropy), atol=2e-2)


def test_the_objective_increases_and_skills_separate():
    policy, metrics = learn(snn4hrl, SNN4HRLConfig(num_skills=4, mesh_density=1.0, cells=8))
    assert policy.actor.weights[0].shape[0] == 2 + 4 + 2 * 4
    assert increases(metrics["return"], 3.0)
    assert increases(metrics["information"], 0.4)
    assert metrics["information"][-6:].mean() > 0.5 * np.log(4)
    assert increases(metrics["speed"], -0.1)

"""Generalised advantages agree with values computed by hand and with the recursion of the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.rl.advantage import gae

GAMMA, LAMBDA = 0.5, 0.8
REWARDS = jnp.array([1.0, 0.0, 2.0, -1.0])
VALUES = jnp.array([1.0, 2.0, 4.0, 8.0, 16.0])
NEVER = jnp.zeros(4, bool)
ALL = jnp.ones(4, bool)


def test_a_truncated_episode_bootstraps_from_the_state_it_reached():
    # delta = r + V' / 2 - V = [1, 0, 2, -1]; A_t = delta_t + 0.4 A_{t+1}
    expected = [1 + 0.4 * 0.64, 0 + 0.4 * 1.6, 2 + 0.4 * -1, -1]
    np.testing.assert_allclose(gae(REWARDS, VALUES, NEVER, ALL, GAMMA, LAMBDA), expected, rtol=1e-6)


def test_a_terminated_episode_does_not_bootstrap():
    # The last delta is -1 - 8 = -9 without V(s_4).
    terminated = NEVER.at[3].set(True)
    expected = [1 + 0.4 * -0.64, 0 + 0.4 * -1.6, 2 + 0.4 * -9, -9]
    np.testing.assert_allclose(gae(REWARDS, VALUES, terminated, ALL, GAMMA, LAMBDA), expected, rtol=1e-6)


def test_steps_after_the_end_have_no_effect():
    # Two valid steps. Terminated: delta = [1, -2]. Truncated by a time limit: delta = [1, 0], with V(s_2) in it.
    valid = jnp.array([True, True, False, False])
    rewards = jnp.array([1.0, 0.0, jnp.inf, jnp.nan])
    advantages = gae(rewards, VALUES, jnp.array([False, True, True, False]), valid, GAMMA, LAMBDA)
    np.testing.assert_allclose(advantages, [1 + 0.4 * -2, -2, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(gae(rewards, VALUES, NEVER, valid, GAMMA, LAMBDA), [1, 0, 0, 0], atol=1e-7)


def test_lambda_0_is_the_temporal_difference_and_lambda_1_the_return():
    delta = REWARDS + GAMMA * VALUES[1:] - VALUES[:-1]
    np.testing.assert_allclose(gae(REWARDS, VALUES, NEVER, ALL, GAMMA, 0.0), delta, rtol=1e-6)
    returns = [sum(GAMMA**i * r for i, r in enumerate([*REWARDS[t:], VALUES[-1]])) for t in range(4)]
    np.testing.assert_allclose(gae(REWARDS, VALUES, NEVER, ALL, GAMMA, 1.0) + VALUES[:-1], returns, rtol=1e-6)


def recursion(rewards, values, terminated, valid, gamma, lam):
    advantages, following = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        if valid[t]:
            bootstrap = 0.0 if terminated[t] else values[t + 1]
            following = rewards[t] + gamma * bootstrap - values[t] + gamma * lam * following
            advantages[t] = following
    return advantages


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.98), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
def test_agrees_with_the_recursion(gamma, lam):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(8, 50)), rng.normal(size=(8, 51))
    lengths = np.array([1, 2, 10, 25, 49, 50, 50, 50])
    valid = np.arange(50) < lengths[:, None]
    terminated = (np.arange(50) == lengths[:, None] - 1) & (rng.random((8, 1)) < 0.5)
    ours = BATCHED(*map(jnp.float32, (rewards, values)), jnp.asarray(terminated), jnp.asarray(valid), gamma, lam)
    expected = [recursion(*row, gamma, lam) for row in zip(rewards, values, terminated, valid, strict=True)]
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


BATCHED = jax.jit(jax.vmap(gae, (0, 0, 0, 0, None, None)))

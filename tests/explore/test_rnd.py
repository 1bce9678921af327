"""RND: the reward equals the formula, the predictor learns the visited states, and the explorer explores."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from edl.envs.gridworld import gridworld
from edl.envs.rollout import Episode, Skill
from edl.explore.rnd import (
    RNDConfig,
    discounted_sums,
    limit_count,
    prediction_error,
    rnd,
    rnd_bonus,
    train_predictor,
    whiten,
)
from edl.nets.normalise import RunningMoments, running_moments
from edl.program import run_program

CONFIG = RNDConfig(iterations=6, rollouts=8, hidden=(16,), embedding=4, predictor_learning_rate=1e-2, num_samples=64)
BONUS = rnd_bonus(2, CONFIG)


@pytest.fixture(scope="module")
def learned():
    """A bonus whose inputs have mean (1, 2) and std (2, 4), and whose returns have std 3."""
    state = BONUS.init(jax.random.key(0))
    moments = RunningMoments(jnp.float32(10.0), jnp.array([1.0, 2.0]), 10 * jnp.array([4.0, 16.0]))
    return state._replace(moments=moments, returns=RunningMoments(jnp.float32(10.0), jnp.zeros(1), jnp.array([90.0])))


def forward(net, x):
    (w0, w1), (b0, b1) = (np.asarray(w) for w in net.weights), (np.asarray(b) for b in net.biases)
    return np.maximum(x @ w0 + b0, 0) @ w1 + b1


def test_reward_by_hand(learned):
    reached = np.array([3.0, -1000.0])
    x = np.array([1.0, -5.0])  # whitened to (1, -250.5), and clipped
    np.testing.assert_allclose(whiten(learned.moments, jnp.asarray(reached, jnp.float32)), x, atol=1e-6)
    error = np.sum((forward(learned.predictor.params, x) - forward(learned.target, x)) ** 2)
    np.testing.assert_allclose(prediction_error(learned, jnp.asarray(reached, jnp.float32)), error, rtol=1e-4)
    features, zeros = jnp.array([[0.0, 0.0], reached]), jnp.zeros(1, bool)
    episode = Episode(features, features, zeros, zeros, zeros, zeros, Skill(jnp.zeros(0), jnp.int32(0)))
    np.testing.assert_allclose(BONUS.reward(learned, episode), [error / 3], rtol=1e-4)
    blank = learned._replace(moments=running_moments(2))
    np.testing.assert_array_equal(BONUS.reward(blank, episode), [0.0])


def test_returns_are_discounted_and_continue_into_the_next_episode():
    errors, valid = jnp.array([[1.0, 2.0, 9.0], [1.0, 1.0, 1.0]]), jnp.array([[True, True, False], [True] * 3])
    running, sums = discounted_sums(jnp.array([4.0, 0.0]), errors, valid, 0.5)
    np.testing.assert_allclose(sums, [[3, 3.5, 3.5], [1, 1.5, 1.75]])
    np.testing.assert_allclose(running, [3.5, 1.75])


def test_old_returns_lose_weight():
    old = RunningMoments(jnp.float32(1000.0), jnp.zeros(1), jnp.array([4000.0]))
    kept = limit_count(old, 100)
    np.testing.assert_allclose([kept.count, kept.squares[0]], [100, 400])
    np.testing.assert_allclose(limit_count(kept, 1000).squares, kept.squares)
    zeros = jnp.zeros((300, 1))
    assert kept.update(zeros, jnp.ones(300, bool)).normaliser().scale[0] == pytest.approx(1.0)  # 400 / 400


def test_the_predictor_learns_the_visited_states(learned):
    optimiser = optax.adam(CONFIG.predictor_learning_rate)
    near = jax.random.normal(jax.random.key(1), (200, 2))
    shown = jnp.arange(200) < 100

    @jax.jit
    def train(state, keys):
        state, _ = jax.lax.scan(
            lambda s, key: (
                s._replace(predictor=train_predictor(key, s, near + 8 * ~shown[:, None], shown, optimiser, CONFIG)),
                None,
            ),
            state,
            keys,
        )
        return state

    after = train(learned, jax.random.split(jax.random.key(2), 50))
    error = jax.jit(jax.vmap(prediction_error, (None, 0)))
    assert jnp.mean(error(after, near[:100])) < 0.02 * jnp.mean(error(learned, near[:100]))
    assert jnp.mean(error(after, near[100:] + 8)) > 10 * jnp.mean(error(after, near[:100]))


@pytest.mark.slow
def test_explores():
    env = gridworld(7, 7, 12)
    states, metrics = jax.jit(lambda key: run_program(rnd(env, CONFIG), key))(jax.random.key(0))
    assert states.samples.shape == (64, 2)
    assert states.experience.paths.shape == (48, 13, 2)
    assert (np.asarray(states.experience.lengths) == 12).all()
    assert all(np.isfinite(each).all() for each in jax.tree.leaves((states, metrics)))
    visited = {tuple(row) for row in np.asarray(states.experience.paths).reshape(-1, 2)}
    assert len(visited) > 25
    assert {tuple(row) for row in np.asarray(states.samples)} <= visited
    assert metrics["prediction_error"][-1] < metrics["prediction_error"][1]

"""The model recovers the effect of actions although walls cut most moves short."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.base import Box, Env, Step
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.explore.linear_model import LinearModel, as_vector, fit_linear_model, median
from edl.explore.random_walk import random_episode
from tests.compiling import jit

KEYS = jax.random.split(jax.random.key(0), 20)


class Drift(Env):
    """s' = s + A s + B a + c, without walls."""

    horizon: int = 30
    observation_size: int = 3
    feature_size: int = 3

    @property
    def action_space(self):
        return Box(-jnp.ones(2), jnp.ones(2))

    def reset(self, key):
        return jax.random.normal(key, (3,))

    def step(self, key, state, action):
        reached = state + state @ A + action @ B + C
        return Step(reached, reached, jnp.bool_(False), jnp.bool_(False))

    def observe(self, state):
        return state

    def features(self, observation):
        return observation


A = jnp.array([[-0.2, 0.1, 0.0], [0.0, -0.3, 0.0], [0.1, 0.0, -0.1]])
B = jnp.array([[0.5, 0.0, 0.2], [-0.1, 0.7, 0.0]])
C = jnp.array([0.05, 0.0, -0.1])


def fit(env, persistence=0.5):
    def play(keys):
        episodes = jax.vmap(lambda key: random_episode(key, env, persistence))(keys)
        return fit_linear_model(env, episodes), episodes

    return jit(play)(KEYS)


def test_recovers_a_linear_env():
    model, _ = fit(Drift())
    np.testing.assert_allclose(model.weights, jnp.concatenate([A, B, C[None]]), atol=2e-3)


@pytest.mark.parametrize("name", ["corridor_center", "square"])
def test_recovers_free_motion_from_walks_between_walls(name):
    model, episodes = fit(maze(name))
    moves = episodes.features[:, 1:] - episodes.features[:, :-1]
    blocked = jnp.abs(moves - episodes.actions) > 1e-3
    assert jnp.mean(jnp.any(blocked, axis=-1)) > 0.5  # most moves touch a wall
    free = np.concatenate([np.zeros((2, 2)), np.eye(2), np.zeros((1, 2))])
    np.testing.assert_allclose(model.weights, free, atol=0.01)


def test_steps_after_the_end_are_ignored():
    env = Drift()
    _, episodes = fit(env)
    valid = jnp.arange(30) < 20
    broken = episodes._replace(
        features=episodes.features.at[:, 21:].set(99.0), valid=jnp.broadcast_to(valid, episodes.valid.shape)
    )
    model = jit(lambda e: fit_linear_model(env, e))(broken)
    np.testing.assert_allclose(model.weights, jnp.concatenate([A, B, C[None]]), atol=2e-3)


def test_inverse_undoes_forward_within_the_box():
    model, space = LinearModel(jnp.concatenate([A, B, C[None]])), Box(-jnp.ones(2), jnp.ones(2))
    state, action = jnp.array([0.3, -0.2, 1.0]), jnp.array([0.4, -0.6])
    np.testing.assert_allclose(model.inverse(state, model.forward(state, action), space), action, atol=1e-3)
    far = model.inverse(state, model.forward(state, jnp.array([5.0, -0.6])), space)
    np.testing.assert_allclose(far, [1.0, -0.6], atol=2e-2)


def test_discrete_actions_are_one_hot():
    env = gridworld(9, 9, 10)
    np.testing.assert_array_equal(as_vector(jnp.int32(2), env), [0, 0, 1, 0, 0])
    model, _ = fit(env)
    right = model.forward(jnp.zeros(2), as_vector(jnp.int32(1), env))
    up = model.forward(jnp.zeros(2), as_vector(jnp.int32(2), env))
    np.testing.assert_allclose(right, [1, 0], atol=0.05)
    np.testing.assert_allclose(up, [0, 1], atol=0.05)


def test_median_of_the_selected_entries():
    x = jnp.array([5.0, 1.0, 9.0, 3.0, 100.0])
    assert median(x, jnp.array([True, True, True, False, False])) == 5.0
    assert median(x, jnp.array([True, True, True, True, False])) == 5.0  # the upper of the two in the middle

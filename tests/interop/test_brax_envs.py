"""Brax-style envs under jit, tested with a small env that has the interface of Brax."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.rollout import Skill, rollout
from edl.interop.env_names import make_env, remember_factory
from tests.compiling import jit


class State(NamedTuple):
    obs: Any
    done: Any
    info: dict


class Glider:
    """Pushed along x; falls once it is beyond 1."""

    observation_size, action_size = 3, 1

    def reset(self, rng):
        start = jax.random.uniform(rng, (3,), minval=-0.1, maxval=0.1)
        return State(start, jnp.float32(0.0), {"rng": rng})

    def step(self, state, action):
        position = state.obs[0] + 0.4 * action[0]
        return state._replace(obs=state.obs.at[0].set(position), done=(position > 1.0).astype(jnp.float32))


def make(factory, features=None, horizon=0):
    return make_env(remember_factory(factory), features=features, horizon=horizon)


def play(env, push: float):
    def act(key, observation, code):
        return jnp.full(1, push), jnp.zeros(())

    skill = Skill(jnp.zeros(0), jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), 4)
    return jit(jax.vmap(lambda key: rollout(key, env, act, skill)))(keys)


def test_a_brax_style_env_terminates_when_it_is_done():
    env = make(Glider, "0", 6)
    episodes = play(env, push=5.0)  # clipped to 1
    assert episodes.features.shape == (4, 7, 1)
    np.testing.assert_allclose(np.diff(episodes.features[:, :3, 0]), 0.4, rtol=1e-5)
    assert (np.sum(episodes.valid, axis=1) == 3).all()
    assert episodes.terminated[:, 2].all()
    assert len(np.unique(episodes.observations[:, 0, 0])) == 4


def test_an_episode_ends_before_its_physics_diverges_and_keeps_its_last_state():
    class Unstable(Glider):
        def step(self, state, action):
            reached = super().step(state, action)
            position = reached.obs[0]
            return reached._replace(obs=jnp.where(position > 0.7, jnp.nan, reached.obs), done=position < -0.7)

    env = make(Unstable, "0", 6)
    for push in (1.0, -1.0):
        episodes = play(env, push)
        assert np.isfinite(episodes.observations).all()
        assert (np.sum(episodes.valid, axis=1) == 2).all()
        assert (np.sum(episodes.terminated, axis=1) == 1).all()
        np.testing.assert_array_equal(episodes.features[:, 2:], episodes.features[:, 2:3].repeat(5, axis=1))


def test_the_horizon_truncates_and_does_not_terminate():
    episodes = play(make(Glider, None, 5), push=0.0)
    assert episodes.valid.all()
    assert episodes.truncated[:, -1].all()
    assert not episodes.terminated.any()
    assert episodes.features.shape == (4, 6, 3)


def test_observations_must_be_vectors():
    class Pixels(Glider):
        def reset(self, rng):
            return State(jnp.zeros((8, 8)), jnp.float32(0.0), {})

    with pytest.raises(ConfigError, match="must be a vector"):
        make(Pixels)


def test_a_factory_must_make_an_env_of_a_known_kind():
    with pytest.raises(ConfigError, match=r"or a gymnasium.Env \(got a dict\)"):
        make(dict)

"""The time left, as a policy sees it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.clock import at_time_left, time_left, timed_env, timed_horizon, with_time_left
from edl.envs.gridworld import chain
from edl.envs.maze import maze
from edl.envs.success import IN_OPEN, WITHOUT_UNIT, success_of
from edl.explore.oracle import OracleConfig, oracle
from edl.interop.gymnasium_envs import host_env
from tests.interop.hosted import Line
from tests.probes.plane import plane


def test_time_left_is_one_at_the_start_and_zero_at_the_end():
    np.testing.assert_allclose(time_left(jnp.array([7, 1, 0]), 7), [1.0, 1 / 3, 0.0], atol=1e-6)


def test_time_is_the_last_number_of_an_observation():
    seen = with_time_left(jnp.array([5.0, 6.0]), 7, 7)
    np.testing.assert_allclose(seen, [5.0, 6.0, 1.0])
    np.testing.assert_allclose(at_time_left(seen, 1, 7), [5.0, 6.0, 1 / 3], atol=1e-6)


def test_a_timed_env_shows_the_time_and_skills_are_not_about_it():
    plain = host_env("plain", Line, Line(), None, 7, 0)
    timed = plain.with_time_left()
    assert (plain.observation_size, timed.observation_size) == (2, 3)
    assert plain.feature_size == timed.feature_size == 2
    assert (timed_horizon(plain), timed_horizon(timed), timed_horizon(maze("square"))) == (0, 7, 0)
    assert not maze("square").timed
    assert timed_env(maze("square")).timed
    observation = jnp.array([5.0, 6.0, 1.0])
    np.testing.assert_allclose(timed.features(observation), [5.0, 6.0])


def test_a_timed_env_is_judged_and_sampled_like_the_inner_one():
    assert success_of(timed_env(plane())) == IN_OPEN
    assert success_of(timed_env(chain(4, 3, terminates=False))) == WITHOUT_UNIT
    inner, key = maze("square"), jax.random.key(0)
    np.testing.assert_array_equal(timed_env(inner).sample_states(key, 5), inner.sample_states(key, 5))
    with pytest.raises(ConfigError, match="needs an env with sample_states"):
        oracle(timed_env(plane()), OracleConfig())

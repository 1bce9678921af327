"""Gymnasium envs under jit: episodes are pure functions of a key, and failures are reported."""

import functools
import os

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.base import Box, Discrete
from edl.envs.host import EnvError, check_hosts, using_hosts
from edl.envs.rollout import Skill, rollout
from edl.explore.beyond import BeyondConfig, beyond
from edl.interop import gymnasium_envs
from edl.interop.env_names import allow_import, make_env
from edl.interop.gymnasium_envs import host_env
from tests.compiling import jit
from tests.interop.hosted import Closing, Line

SKILL = Skill(jnp.zeros(0), jnp.int32(0))


def make(horizon: int = 6, workers: int = 0, features=None, **options):
    factory = functools.partial(Line, **options)
    return host_env(f"line {options}", factory, factory(), features, horizon, workers)


def push(key, observation, code):
    return jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0), jnp.zeros(())


def steer(key, observation, code):
    return jax.random.randint(key, (), 0, 3), jnp.zeros(())


@functools.partial(jit, static_argnames=("actor", "count"))
def play(key, env, actor=push, count=5):
    return jax.vmap(lambda key: rollout(key, env, actor, SKILL))(jax.random.split(key, count))


def test_an_episode_is_a_function_of_its_key():
    env = make()
    one, again, other = (play(jax.random.key(seed), env) for seed in (0, 0, 1))
    check_hosts(env)
    np.testing.assert_array_equal(one.observations, again.observations)
    assert not np.allclose(one.observations, other.observations)
    np.testing.assert_allclose(one.observations[:, 1:, 1], one.actions[..., 0], rtol=1e-6)
    np.testing.assert_allclose(np.diff(one.observations[..., 0]), 0.1 * one.actions[..., 0], atol=1e-6)
    assert one.valid.all()
    assert one.truncated[:, -1].all()
    assert not one.terminated.any()


def test_a_seed_gives_the_same_episodes_in_any_batch_and_in_worker_processes():
    keys = jax.random.split(jax.random.key(3), 2)
    env, with_workers = make(), make(workers=2)
    together = jax.vmap(play, in_axes=(0, None))(keys, env)
    for number, key in enumerate(keys):
        np.testing.assert_array_equal(together.observations[number], play(key, env).observations)
    np.testing.assert_array_equal(play(keys[0], with_workers).observations, together.observations[0])
    with_workers.host.close()


def test_siblings_share_only_their_first_state():
    env = make()

    @jit
    def siblings(key, start):
        return jax.vmap(lambda key: rollout(key, env, push, SKILL, start_key=start))(jax.random.split(key))

    one, other = siblings(jax.random.key(0), jax.random.key(1)).observations
    np.testing.assert_array_equal(one[0], other[0])
    assert not np.allclose(one[1:], other[1:])


def test_steps_after_a_termination_are_not_valid_and_keep_the_last_observation():
    def right(key, observation, code):
        return jnp.ones(1), jnp.zeros(())

    env = make(ends=True, horizon=8)
    episodes = play(jax.random.key(0), env, right, 3)
    lengths = np.sum(episodes.valid, axis=1)
    assert (lengths < 8).all()
    for episode, length in zip(np.asarray(episodes.observations), lengths, strict=True):
        assert episode[length, 0] > 0.3
        np.testing.assert_array_equal(episode[length:, 0], episode[length, 0])


def rightwards(key, observation, code):
    return jax.random.uniform(key, (1,), minval=0.5, maxval=1.0), jnp.zeros(())


def test_the_loop_ends_with_the_last_episode_of_the_batch(monkeypatch):
    env, calls = make(ends=True, horizon=50), []
    step = type(env.host).step
    monkeypatch.setattr(type(env.host), "step", lambda host, moves: calls.append(1) or step(host, moves))
    longest = int(np.sum(play(jax.random.key(0), env, rightwards).valid, axis=1).max())
    check_hosts(env)
    assert longest < 10
    assert len(calls) == longest + 1  # one more for the rows after the end


def test_rows_after_the_end_do_not_depend_on_the_batch():
    keys = jax.random.split(jax.random.key(7), 3)
    env = make(ends=True, horizon=20)
    together = jax.vmap(functools.partial(play, actor=rightwards), in_axes=(0, None))(keys, env)
    assert len(np.unique(np.sum(together.valid, axis=2))) > 1
    for number, key in enumerate(keys):
        alone = play(key, env, rightwards)
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x, i=number: x[i], together), alone)


def test_pure_callback_gives_the_same_episodes(monkeypatch):
    expected = play(jax.random.key(0), make(ends=True), rightwards).observations
    monkeypatch.setattr("edl.envs.host.buffer_callback", None)
    env = make(ends=True, horizon=6, workers=0, features="0")  # a new env, which is traced again
    np.testing.assert_array_equal(play(jax.random.key(0), env, rightwards).observations, expected)


def test_discrete_actions_start_at_the_start_of_the_space():
    env = make(discrete=True)
    assert env.action_space == Discrete(3)
    episodes = play(jax.random.key(0), env, steer)
    np.testing.assert_allclose(episodes.observations[:, 1:, 1], episodes.actions - 1)


def test_envs_are_reused_for_new_episodes():
    made = []
    env = host_env("counted", lambda: made.append(1) or Line(), Line(), None, 6, 0)
    for seed in range(4):
        play(jax.random.key(seed), env)
    check_hosts(env)
    assert len(made) == 4  # and the first one, for 5 episodes at a time


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("raise", r"raised RuntimeError: the motor is on fire .* at step 3 of an episode"),
        ("nan", r"returned nan in dimension 0 of its observation at step 3 of an episode \(seed \d+\)"),
        ("shape", r"returned an observation of shape \(3,\) instead of \(2,\) at step 3"),
    ],
)
def test_a_failure_names_the_env_and_the_step(trouble, message, workers):
    env = make(trouble=trouble, workers=workers)
    play(jax.random.key(0), env)
    with pytest.raises(EnvError, match=message) as error:
        check_hosts(env)
    assert "line {'trouble'" in str(error.value)
    check_hosts(env)  # raised once; the env can be used again
    play(jax.random.key(0), env)
    with pytest.raises(EnvError, match=message):
        check_hosts(env)
    env.host.close()


def test_the_death_of_a_worker_process_is_reported():
    env = make(trouble="die", workers=1)
    play(jax.random.key(0), env)
    with pytest.raises(EnvError, match=r"crashed its worker process \(exit status 7\)"):
        check_hosts(env)


def test_features_are_dimensions_or_a_function():
    seen = jnp.array([3.0, 4.0])
    np.testing.assert_array_equal(make().features(seen), seen)
    np.testing.assert_array_equal(make(features="1").features(seen), [4.0])
    length = make(features=lambda observation: jnp.linalg.norm(observation, keepdims=True))
    np.testing.assert_array_equal(length.features(seen), [5.0])
    assert (make(features="1").feature_size, length.feature_size) == (1, 1)


@pytest.mark.parametrize("features", ["2", "0,0", "x", "", lambda observation: observation[7:, None]])
def test_bad_features_are_rejected(features):
    with pytest.raises(ConfigError, match="features must"):
        make(features=features)


def test_spaces_that_do_not_fit_name_the_wrapper():
    def odd(observation=None, action=None):
        env = Line()
        env.observation_space = observation or env.observation_space
        env.action_space = action or env.action_space
        return env

    spaces = gymnasium.spaces
    cases = {
        "FlattenObservation": {"observation": spaces.Dict(position=spaces.Box(-1, 1, (2,)))},
        "TransformObservation": {"observation": spaces.Box(0, 255, (8, 8, 3), np.uint8)},
        "ActionWrapper": {"action": spaces.MultiDiscrete([2, 2])},
        "RescaleAction": {"action": spaces.Box(-np.inf, np.inf, (1,))},
    }
    for wrapper, options in cases.items():
        with pytest.raises(ConfigError, match=wrapper):
            host_env("odd", odd, odd(**options))


def test_an_env_that_cannot_be_made_says_why():
    with pytest.raises(ConfigError, match="'NoSuchWorld-v0' cannot be made"):
        make_env("NoSuchWorld-v0")
    with pytest.raises(ConfigError, match="cannot be imported"):
        make_env(allow_import("no_such_module:Thing"))
    with pytest.raises(ConfigError, match="must be a class or function"):
        make_env(allow_import("tests.interop.hosted:__doc__"))
    with pytest.raises(ConfigError, match=r"horizon must be at most 500 .* \(got 501\)"):
        make_env("CartPole-v1", horizon=501)
    with pytest.raises(ConfigError, match=r"must be key=value, joined by '&' \(got 'x'\)"):
        make_env("CartPole-v1?x")


def test_ids_and_arguments_reach_gymnasium():
    env = make_env("CartPole-v1?sutton_barto_reward=true&render_mode=rgb_array")
    assert (env.observation_size, env.horizon, env.num_actions) == (4, 200, 2)
    assert isinstance(make_env("MountainCarContinuous-v0").action_space, Box)
    assert isinstance(make_env(allow_import("tests.interop.hosted:Line")).action_space, Box)
    assert make_env("edl/Square-v0").horizon == 50


def test_parts_of_episodes_are_rejected():
    """The host counts the steps of all episodes together, so they must start together."""
    config = BeyondConfig(iterations=1, rollouts=2, unroll=3, minibatches=1)
    with pytest.raises(ConfigError, match=r"parts of episodes need an env in JAX \(got unroll=3"):
        beyond(make(), config)


def test_a_host_closes_all_of_its_envs_and_makes_new_ones_at_the_next_reset(monkeypatch):
    monkeypatch.setattr(Closing, "opened", 0)
    env = host_env("closing", Closing, Closing(), None, 6, 0)
    with using_hosts(env):
        with using_hosts((env, env)):
            before = play(jax.random.key(0), env)
        assert Closing.opened == 5  # they are still in use
    assert Closing.opened == 0
    after = play(jax.random.key(0), env)
    assert Closing.opened == 5
    np.testing.assert_array_equal(before.observations, after.observations)
    env.host.close()
    assert Closing.opened == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_the_env_that_was_made_first_is_closed(monkeypatch, workers):
    monkeypatch.setattr(Closing, "opened", 0)
    env = host_env("closing", Closing, Closing(), None, 6, workers)
    with using_hosts(env):
        if workers:
            env.host.reset(np.arange(2))
    assert Closing.opened == 0
    assert env.host.failure is None


def test_a_program_that_still_runs_when_its_host_is_closed_does_not_step_the_envs_of_the_next_one():
    host = make().host
    move = np.ones((2, 3), np.float32)
    move[:, 0], move[:, 1] = host.reset(np.array([1, 2]))[:, 0], 0
    host.close()
    assert np.isnan(host.step(move)).all()
    new = host.reset(np.array([3, 4, 5]))
    assert np.isnan(host.step(move)).all()
    assert host.failure is None
    move[:, 0] = new[:2, 0]
    np.testing.assert_allclose(host.step(move)[:, 1], new[:2, 1] + 0.1, rtol=1e-5)
    host.close()


@pytest.mark.parametrize("cores", [1, 6])
def test_slow_envs_have_a_worker_process_per_core_on_every_system(monkeypatch, cores):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(gymnasium_envs, "SLOW_STEP", 0.0)
    assert gymnasium_envs.choose_workers(Line()) == (cores if cores > 1 else 0)

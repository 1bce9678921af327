"""Gymnasium worlds under jit: pure functions of a key, whoever steps them; and what can go wrong."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.base import Box, Discrete
from edl.envs.host import WorldError, check_hosts
from edl.envs.rollout import Skill, rollout
from edl.interop.gymnasium_envs import host_env
from edl.interop.env_names import is_host_id, remember
from tests.compiling import jit
from tests.interop.hosted import Line

SKILL = Skill(jnp.zeros(0), jnp.int32(0))


def make(horizon: int = 6, workers: int = 0, features=None, **options):
    factory = functools.partial(Line, **options)
    return host_env(f"line {options}", factory, features, horizon, workers)


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


def test_a_seed_is_the_same_in_any_company_and_in_any_process():
    keys = jax.random.split(jax.random.key(3), 2)
    env, crew = make(), make(workers=2)
    together = jax.vmap(play, in_axes=(0, None))(keys, env)
    for number, key in enumerate(keys):
        np.testing.assert_array_equal(together.observations[number], play(key, env).observations)
    np.testing.assert_array_equal(play(keys[0], crew).observations, together.observations[0])
    crew.host.close()


def test_siblings_start_together_and_go_apart():
    env = make()

    @jit
    def family(key, start):
        return jax.vmap(lambda key: rollout(key, env, push, SKILL, start_key=start))(jax.random.split(key))

    one, other = family(jax.random.key(0), jax.random.key(1)).observations
    np.testing.assert_array_equal(one[0], other[0])
    assert not np.allclose(one[1:], other[1:])


def test_what_follows_a_termination_is_not_valid_and_stays():
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


def test_a_batch_ends_with_its_last_episode(monkeypatch):
    env, calls = make(ends=True, horizon=50), []
    step = type(env.host).step
    monkeypatch.setattr(type(env.host), "step", lambda host, moves: calls.append(1) or step(host, moves))
    longest = int(np.sum(play(jax.random.key(0), env, rightwards).valid, axis=1).max())
    check_hosts(env)
    assert longest < 10
    assert len(calls) == longest + 1  # one more for what follows the end


def test_what_follows_an_end_is_the_same_in_any_company():
    keys = jax.random.split(jax.random.key(7), 3)
    env = make(ends=True, horizon=20)
    together = jax.vmap(functools.partial(play, actor=rightwards), in_axes=(0, None))(keys, env)
    assert len(np.unique(np.sum(together.valid, axis=2))) > 1
    for number, key in enumerate(keys):
        alone = play(key, env, rightwards)
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x, i=number: x[i], together), alone)


def test_the_way_for_every_device_gives_the_same(monkeypatch):
    wanted = play(jax.random.key(0), make(ends=True), rightwards).observations
    monkeypatch.setattr("edl.envs.host.buffer_callback", None)
    env = make(ends=True, horizon=6, workers=0, features="0")  # another world, so that it is traced again
    np.testing.assert_array_equal(play(jax.random.key(0), env, rightwards).observations, wanted)


def test_discrete_actions_count_from_where_the_world_does():
    env = make(discrete=True)
    assert env.action_space == Discrete(3)
    episodes = play(jax.random.key(0), env, steer)
    np.testing.assert_allclose(episodes.observations[:, 1:, 1], episodes.actions - 1)


def test_slots_are_used_again():
    env = make()
    for seed in range(4):
        play(jax.random.key(seed), env)
    assert len(env.host._seeds) == 5


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("raise", r"raised RuntimeError: the motor is on fire .* at step 3 of an episode"),
        ("nan", r"observed nan in dimension 0 at step 3"),
        ("shape", r"observed something of shape \(3,\) instead of \(2,\) at step 3"),
    ],
)
def test_a_world_that_fails_is_named_with_the_step(trouble, said, workers):
    env = make(trouble=trouble, workers=workers)
    play(jax.random.key(0), env)
    with pytest.raises(WorldError, match=said) as error:
        check_hosts(env)
    assert "line {'trouble'" in str(error.value)
    check_hosts(env)  # said once, and ready for another try
    play(jax.random.key(0), env)
    with pytest.raises(WorldError, match=said):
        check_hosts(env)
    env.host.close()


def test_a_worker_that_dies_is_told():
    env = make(trouble="die", workers=1)
    play(jax.random.key(0), env)
    with pytest.raises(WorldError, match="took its worker process down"):
        check_hosts(env)


def test_features_are_dimensions_or_a_function():
    seen = jnp.array([3.0, 4.0])
    np.testing.assert_array_equal(make().features(seen), seen)
    np.testing.assert_array_equal(make(features="1").features(seen), [4.0])
    length = make(features=lambda observation: jnp.linalg.norm(observation, keepdims=True))
    np.testing.assert_array_equal(length.features(seen), [5.0])
    assert (make(features="1").feature_size, length.feature_size) == (1, 1)


@pytest.mark.parametrize("features", ["2", "0,0", "x", "", lambda observation: observation[7:, None]])
def test_features_that_are_none_are_refused(features):
    with pytest.raises(ConfigError, match="features="):
        make(features=features)


def test_worlds_that_do_not_fit_name_the_wrapper():
    def world(observation=None, action=None):
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
            host_env("odd", functools.partial(world, **options))


def test_worlds_that_cannot_be_made_say_why():
    with pytest.raises(ConfigError, match="cannot be made"):
        host_env("NoSuchWorld-v0")
    with pytest.raises(ConfigError, match="cannot be imported"):
        host_env("no_such_module:Thing")
    with pytest.raises(ConfigError, match=r"ends after 500 steps"):
        host_env("CartPole-v1", horizon=501)
    with pytest.raises(ConfigError, match="give it again"):
        host_env("python:<lambda>")


def test_names_and_arguments_reach_gymnasium():
    env = host_env("CartPole-v1?sutton_barto_reward=true&render_mode=rgb_array", workers=0)
    assert (env.observation_size, env.horizon, env.num_actions) == (4, 200, 2)
    assert isinstance(host_env("MountainCarContinuous-v0").action_space, Box)
    assert isinstance(host_env("tests.interop.hosted:Line").action_space, Box)
    assert all(map(is_host_id, ("CartPole-v1", "edl/Square-v0", "mine:Env-v0", "mine.envs:make", "A-v0?b=1")))
    assert not any(map(is_host_id, ("square", "maze.txt", "mazes/tree.txt", "corridor_left")))
    assert remember(Line) == "tests.interop.hosted:Line"
    assert remember(lambda: Line()) == "python:test_names_and_arguments_reach_gymnasium.<locals>.<lambda>"

"""`rollout` and `rollout_with_memory`: what an episode records, and which keys it uses."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.envs.gridworld import chain, gridworld
from edl.envs.maze import maze
from edl.envs.rollout import Skill, continue_rollout, rollout, rollout_with_memory
from tests.compiling import jit
from tests.probes.plane import mortal, plane

KEY = jax.random.key(0)
SKILL = Skill(jnp.array([1.0]), jnp.int32(3), jnp.array([9.0, 9.0]))
RIGHT, UP = 1, 2


def always(action):
    return lambda key, observation, code: (jnp.int32(action), jnp.zeros(()))


def test_an_episode_records_observations_actions_and_ends():
    episode = rollout(KEY, chain(4, 3, terminates=False), always(RIGHT), SKILL)
    np.testing.assert_array_equal(episode.observations[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(episode.features, episode.observations)
    np.testing.assert_array_equal(episode.actions, [RIGHT] * 3)
    np.testing.assert_array_equal(episode.truncated, [False, False, True])
    assert not episode.terminated.any()
    assert episode.valid.all()
    assert episode.length == 3
    np.testing.assert_array_equal(episode.last, [3, 0])
    assert episode.skill is SKILL


def test_steps_after_a_termination_are_not_valid():
    episode = rollout(KEY, chain(3, 6, terminates=True), always(RIGHT), SKILL)
    np.testing.assert_array_equal(episode.valid, [True, True, False, False, False, False])
    assert episode.terminated[1]
    assert episode.length == 2
    np.testing.assert_array_equal(episode.last, [2, 0])


def test_the_actor_receives_the_observation_and_the_code():
    def act(key, observation, code):
        return jnp.where(observation[0] < code[0], RIGHT, UP), observation[0] * 10

    episode = rollout(KEY, gridworld(7, 7, 4), act, SKILL)
    np.testing.assert_array_equal(episode.actions, [RIGHT, UP, UP, UP])
    np.testing.assert_array_equal(episode.last, [1, 3])
    np.testing.assert_array_equal(episode.extras, [0, 10, 10, 10])


def test_the_memory_starts_with_the_first_observation_and_is_carried():
    def act(key, observation, count):
        return jnp.int32(RIGHT), count, count + 1

    episode = rollout_with_memory(KEY, gridworld(9, 9, 4), act, SKILL, lambda observation: observation[0] + 5)
    np.testing.assert_array_equal(episode.extras, [5, 6, 7, 8])


def test_a_skill_that_changes_sees_the_skill_before_the_time_and_the_features():
    def change(skill, time, features):
        return skill._replace(code=skill.code + features[0], index=time)

    def act(key, observation, code):
        return jnp.where(code[0] < 3, RIGHT, UP), code[0] * 10

    episode = rollout(KEY, gridworld(9, 9, 4), act, SKILL, change=change)
    np.testing.assert_array_equal(episode.actions, [RIGHT, RIGHT, UP, UP])  # the code is 1, 1 + 1, 2 + 2, 4 + 2
    np.testing.assert_array_equal(episode.extras, [10, 20, 40, 60])
    assert episode.skill is SKILL
    np.testing.assert_array_equal(episode.skills.code, [[1], [2], [4], [6]])
    np.testing.assert_array_equal(episode.skills.index, [0, 1, 2, 3])
    np.testing.assert_array_equal(episode.skills.goal, [[9, 9]] * 4)


def test_a_skill_that_does_not_change_plays_the_same_episode():
    def act(number, observation, code):
        return jnp.where(number < 0.5, RIGHT, UP), number

    env = gridworld(9, 9, 20)
    fixed = rollout(KEY, env, act, SKILL, draw=jax.random.uniform)
    assert fixed.skills is None
    kept = rollout(KEY, env, act, SKILL, draw=jax.random.uniform, change=lambda skill, time, features: skill)
    np.testing.assert_array_equal(fixed.extras, kept.extras)
    np.testing.assert_array_equal(fixed.features, kept.features)


def test_each_step_has_its_own_key():
    def act(key, observation, code):
        return jnp.int32(0), jax.random.uniform(key)

    assert len(np.unique(rollout(KEY, gridworld(3, 3, 20), act, SKILL).extras)) == 20


def test_draw_uses_the_same_keys_as_the_actor():
    def act(number, observation, code):
        return jnp.int32(0), number

    def act_by_key(key, observation, code):
        return act(jax.random.uniform(key), observation, code)

    before = rollout(KEY, gridworld(3, 3, 20), act, SKILL, draw=jax.random.uniform)
    np.testing.assert_array_equal(before.extras, rollout(KEY, gridworld(3, 3, 20), act_by_key, SKILL).extras)


def test_episodes_with_the_same_start_key_share_only_their_first_state():
    env = maze("square", horizon=3)

    def act(key, observation, code):
        return jax.random.uniform(key, (2,), minval=-0.9, maxval=0.9), jnp.zeros(())

    @jit
    def play(key, start_key):
        return rollout(key, env, act, SKILL, start_key=start_key).features

    one, other = jax.random.split(KEY)
    first, second, elsewhere = play(one, KEY), play(other, KEY), play(one, other)
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.allclose(first[1:], second[1:])
    assert not np.allclose(first[0], elsewhere[0])


def test_an_episode_from_a_given_state_has_the_full_horizon():
    env = chain(9, 3, terminates=True)
    late = env.reset(KEY)._replace(tile=jnp.array([4, 0], jnp.int32), time=jnp.int32(2))

    def act(key, observation, memory):
        return jnp.int32(RIGHT), jnp.zeros(()), memory

    episode = rollout_with_memory(KEY, env, act, SKILL, lambda observation: observation, start_state=late)
    np.testing.assert_array_equal(episode.features[:, 0], [4, 5, 6, 7])
    assert episode.valid.all()
    np.testing.assert_array_equal(episode.states.tile[:, 0], [5, 6, 7])


def test_episodes_can_be_vmapped():
    env = chain(3, 5, terminates=True)
    actions = jnp.array([0, RIGHT])
    batch = jax.vmap(lambda action: rollout(KEY, env, lambda *_: (action, jnp.zeros(())), SKILL))(actions)
    np.testing.assert_array_equal(jax.vmap(lambda e: e.length)(batch), [5, 2])
    np.testing.assert_array_equal(jax.vmap(lambda e: e.last)(batch)[:, 0], [0, 2])


def test_an_episode_that_has_ended_keeps_its_state_whatever_the_env_returns():
    def act(key, observation, memory):
        return jnp.array([1.0]), observation, memory

    env = mortal(plane(1, 5), end=2.0)
    for start in (None, env.reset(KEY)):
        play = jit(lambda start: rollout_with_memory(KEY, env, act, SKILL, lambda observation: None, start_state=start))
        episode = play(start)
        np.testing.assert_array_equal(episode.features[:, 0], [0.5, 1.5, 2.5, 2.5, 2.5, 2.5])
        np.testing.assert_array_equal(episode.valid, [True, True, False, False, False])
        np.testing.assert_array_equal(episode.extras[:, 1], [0, 1, 2, 2, 2])
    np.testing.assert_array_equal(episode.states.position[:, 0], [1.5, 2.5, 2.5, 2.5, 2.5])
    state, part = continue_rollout(KEY, env, lambda *_: (jnp.array([1.0]), None), SKILL, env.reset(KEY), 4)
    assert part.ended
    np.testing.assert_array_equal(state.position, [2.5])

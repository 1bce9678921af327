import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs import layout_of, layouts, make
from edl.envs.maze import MAX_ACTION, MazeShape, MazeState, maze, pad_to_shape, shape_of, stack
from edl.envs.rollout import Skill, rollout
from tests.compiling import jit

TWO_STARTS = layouts.parse("+-+-+-+\n|S   S|\n+-+-+-+", "two")


def test_a_random_policy_completes_episodes():
    env = make("square")

    def actor(key, observation, code):
        return jax.random.uniform(key, (2,), minval=-1, maxval=1), jnp.zeros(())

    skill = Skill(jnp.zeros(1), jnp.int32(0))
    play = jax.jit(jax.vmap(lambda key: rollout(key, env, actor, skill)))
    episodes = play(jax.random.split(jax.random.key(0), 64))
    assert episodes.observations.shape == (64, 51, 2)
    np.testing.assert_array_equal(episodes.features, episodes.observations)
    assert not episodes.terminated.any()
    assert not episodes.truncated[:, :-1].any()
    assert episodes.truncated[:, -1].all()
    assert episodes.valid.all()
    assert jnp.all(jnp.abs(jnp.diff(episodes.observations, axis=1)) < MAX_ACTION + 0.01)


def test_actions_are_clipped_to_the_box():
    env = maze("corridor_left")
    reached = env.step(jax.random.key(0), MazeState(jnp.zeros(2), jnp.int32(0)), jnp.array([5.0, 0.0]))
    np.testing.assert_allclose(reached.observation, [MAX_ACTION, 0])
    np.testing.assert_allclose(env.action_space.high, MAX_ACTION)


@pytest.mark.parametrize(("time", "truncated"), [(48, False), (49, True)])
def test_an_episode_is_truncated_at_the_horizon(time, truncated):
    env = maze("square")
    step = env.step(jax.random.key(0), MazeState(jnp.zeros(2), jnp.int32(time)), jnp.zeros(2))
    assert (bool(step.truncated), bool(step.terminated), int(step.state.time)) == (truncated, False, time + 1)


def test_starts_are_uniform_over_start_cells_and_away_from_their_borders():
    env = maze(TWO_STARTS)
    starts = np.asarray(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4000)).position)
    right = starts[:, 0] > 1
    assert 0.46 < right.mean() < 0.54
    inside = starts - np.where(right[:, None], [2, 0], [0, 0])
    assert 0.44 < np.abs(inside).max() <= 0.45
    assert np.abs(inside.mean(axis=0)).max() < 0.02


def test_oracle_is_uniform_over_the_cells():
    layout = layout_of("tree")
    states = np.asarray(make("tree").sample_states(jax.random.key(0), 31_000))
    distance = np.abs(states[:, None] - layout.cells[None]).max(axis=2)
    assert distance.min(axis=1).max() <= 0.5
    counts = np.bincount(distance.argmin(axis=1), minlength=31)
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5
    inside = states - layout.cells[distance.argmin(axis=1)]
    histogram, *_ = np.histogram2d(*inside.T, bins=4, range=[[-0.5, 0.5]] * 2)
    assert np.abs(histogram - 31_000 / 16).max() < 5 * (31_000 / 16) ** 0.5


def test_stacked_mazes_behave_like_single_mazes():
    mazes = [make("tree"), maze(TWO_STARTS)]
    keys = jax.random.split(jax.random.key(0), 50)

    def random_walk(env):
        def advance(state, key):
            act_key, step_key = jax.random.split(key)
            step = env.step(step_key, state, jax.random.uniform(act_key, (2,), minval=-1, maxval=1))
            return step.state, step.observation

        return jax.lax.scan(advance, env.reset(keys[0]), keys)[1], env.sample_states(keys[1], 100)

    stacked = jit(jax.vmap(random_walk))(stack(mazes))
    for index, each in enumerate(mazes):
        for together, alone in zip(stacked, jit(random_walk)(each), strict=True):
            np.testing.assert_allclose(together[index], alone, atol=1e-5)


def test_padding_does_not_change_a_single_bit():
    env, keys = make("random:6x6?loops=0.2&rooms=1&seed=4"), jax.random.split(jax.random.key(1), 32)
    padded = pad_to_shape(env, MazeShape(walls=60, cells=100, starts=3))
    assert shape_of([padded]) == (60, 100, 3)

    def actor(key, observation, code):
        return jax.random.uniform(key, (2,), minval=-1, maxval=1), jnp.zeros(())

    def play(env, keys):
        skill = Skill(jnp.zeros(1), jnp.int32(0))
        return jax.vmap(lambda key: rollout(key, env, actor, skill))(keys), env.sample_states(keys[0], 64)

    # With less compile effort, XLA rounds the last elements of an array differently, so the shape matters.
    for one, other in zip(*(jax.tree.leaves(jax.jit(play)(each, keys)) for each in (env, padded)), strict=True):
        np.testing.assert_array_equal(one, other)

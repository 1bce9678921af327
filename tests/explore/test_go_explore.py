"""Go-Explore chooses rare cells, restores their states, archives new cells, and covers more than a random walk."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import NUM_RESETS
from edl.envs import layout_of, make
from edl.envs.gridworld import GridState, chain
from edl.envs.maze import MazeState
from edl.envs.rollout import Episode, Skill
from edl.evaluate.coverage import bins_of, coverage, visited
from edl.explore.go_explore import Archive, GoExploreConfig, archive_new_cells, choose_start, go_explore, learn_from
from edl.explore.random_walk import random_episode
from edl.program import run_program

CONFIG = GoExploreConfig(iterations=20, rollouts=10, cells=2048, num_samples=256)


@pytest.fixture(scope="module")
def bottleneck():
    env = make("bottleneck")
    return jax.jit(lambda key: run_program(go_explore(env, CONFIG), key))(jax.random.key(0))


@pytest.fixture(scope="module")
def restored():
    """200 episodes of random actions from a state near the origin whose time limit has passed."""
    env, late = make("bottleneck"), MazeState(jnp.array([0.1, -0.2]), jnp.int32(49))
    keys = jax.random.split(jax.random.key(0), 200)
    return jax.jit(jax.vmap(lambda key: random_episode(key, env, 0.5, start_state=late)))(keys)


def test_restored_episodes_start_in_the_given_state_with_a_full_horizon(restored):
    np.testing.assert_allclose(restored.features[:, 0], np.tile([0.1, -0.2], (200, 1)), rtol=1e-6)
    assert np.asarray(restored.valid).all()
    np.testing.assert_array_equal(restored.states.position, restored.features[:, 1:])
    np.testing.assert_array_equal(restored.states.time[0], 50 + np.arange(50))


def test_the_first_episodes_begin_at_a_reset_also_if_batches_are_small(bottleneck):
    in_first_cell = np.abs(bottleneck[0].experience.paths[:, 0]).max(axis=1) <= 0.5
    assert CONFIG.rollouts < NUM_RESETS
    assert in_first_cell[:NUM_RESETS].all()
    assert in_first_cell[:: CONFIG.rollouts].all()
    assert in_first_cell[NUM_RESETS:].mean() < 0.3


def test_new_cells_are_archived_once_up_to_the_capacity():
    empty = Archive(jnp.zeros(4, jnp.int32), jnp.zeros((4, 1)), jnp.int32(0))
    cells, states = jnp.array([7, 9, 7, 8, 9]), jnp.arange(5.0)[:, None]
    grow = jax.jit(archive_new_cells)
    one = grow(empty, cells, states, jnp.array([True, False, True, True, True]))
    assert one.count == 3
    np.testing.assert_array_equal(one.cells[:3], [7, 8, 9])
    np.testing.assert_array_equal(one.states[:3, 0], [0, 3, 4])  # row 1 was terminal
    two = grow(one, jnp.array([8, 0, 1, 0, 2]), 10 + states, jnp.ones(5, bool))
    assert two.count == 4
    np.testing.assert_array_equal(two.cells, [7, 8, 9, 0])
    np.testing.assert_array_equal(two.states[:, 0], [0, 3, 4, 11])


def test_rarely_visited_cells_are_chosen_more_often():
    env = chain(9, 4, terminates=False)
    program = go_explore(env, GoExploreConfig(iterations=1, rollouts=1, cells=4))
    state = program.init(jax.random.key(0))
    tiles = state.archive.states._replace(tile=jnp.array([[5, 0], [6, 0], [7, 0], [8, 0]], jnp.int32))
    archive = Archive(jnp.array([10, 20, 30, 0], jnp.int32), tiles, jnp.int32(3))
    state = state._replace(
        archive=archive, visits=state.visits.at[jnp.array([10, 20, 30])].set(jnp.array([0.0, 3.0, 24.0]))
    )

    @jax.jit
    @jax.vmap
    def draw(key):
        kept, fresh = (choose_start(key, env, state, jnp.bool_(reset)).tile[0] for reset in (False, True))
        return kept, fresh

    kept, fresh = draw(jax.random.split(jax.random.key(0), 4000))
    assert (np.asarray(fresh) == 0).all()
    share = np.bincount(np.asarray(kept), minlength=9)[5:] / 4000
    np.testing.assert_allclose(share, np.array([1, 1 / 2, 1 / 5, 0]) / 1.7, atol=0.03)


@pytest.mark.slow
def test_p_of_s_is_nearly_uniform_over_the_visited_cells(bottleneck):
    states, metrics = bottleneck
    assert states.samples.shape == (256, 2)
    assert states.experience.paths.shape == (200, 51, 2)
    assert (np.asarray(states.experience.lengths) == 50).all()
    assert np.isfinite(states.samples).all()
    cells = np.asarray(metrics["cells"])
    assert (np.diff(cells) >= 0).all()
    assert cells[-1] > 2 * cells[0]
    visits = np.unique(np.round(np.asarray(states.experience.paths).reshape(-1, 2)), axis=0, return_counts=True)[1]
    drawn = np.unique(np.round(np.asarray(states.samples)), axis=0, return_counts=True)[1]
    assert np.std(drawn) / np.mean(drawn) < 0.7 * np.std(visits) / np.mean(visits)


@pytest.mark.slow
def test_it_covers_more_than_a_random_walk(bottleneck, restored):
    bins = bins_of(layout_of("bottleneck"))
    ours, theirs = visited(bins, bottleneck[0].experience.paths), visited(bins, restored.features)
    assert coverage(bins, ours) > 1.5 * coverage(bins, theirs)


def test_visits_are_counted_and_terminal_states_are_not_archived():
    env = chain(4, 3, terminates=True)
    config = GoExploreConfig(iterations=2, rollouts=2, cells=8, cell=1.0)
    state = go_explore(env, config).init(jax.random.key(0))
    # The first episode ends in tile 3. The second reaches it in its first step.
    places = jnp.array([[0, 1, 2, 3], [2, 3, 3, 2]])
    tiles = jnp.stack([places, jnp.zeros_like(places)], axis=-1)
    episodes = Episode(
        observations=tiles.astype(jnp.float32),
        features=tiles.astype(jnp.float32),
        actions=jnp.ones((2, 3), jnp.int32),
        terminated=places[:, 1:] == 3,
        truncated=jnp.zeros((2, 3), bool),
        valid=jnp.array([[True, True, True], [True, False, False]]),
        skill=Skill(jnp.zeros((2, 0)), jnp.zeros(2, jnp.int32)),
        states=GridState(tiles[:, 1:], jnp.ones((2, 3), jnp.int32)),
    )
    state = jax.jit(learn_from, static_argnums=2)(state, episodes, config)
    assert state.archive.count == 2
    np.testing.assert_array_equal(state.archive.states.tile[:2, 0], [1, 2])
    assert sorted(np.asarray(state.visits[state.visits > 0])) == [1, 1, 2]
    assert list(state.experience.lengths) == [3, 1, 0, 0]

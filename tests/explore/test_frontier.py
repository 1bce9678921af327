"""The frontier explorer covers more than a random walk, follows paths to landmarks, and counts visits and misses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs import layouts
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.explore.frontier import (
    FrontierConfig,
    FrontierState,
    Trip,
    action_towards,
    block_pair,
    follow_path,
    frontier,
    least_visited,
    novelty,
)
from edl.explore.linear_model import LinearModel
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.graph.landmarks import empty_graph
from edl.nets.cells import TABLE_SIZE, cell_of
from edl.program import program_keys, run_program
from tests.compiling import jit

LAYOUT = layouts.load("tree")
ENV = maze(LAYOUT)
CONFIG = FrontierConfig(iterations=14, landmarks=512, num_samples=2000)
KEY = jax.random.key(0)
FREE = LinearModel(jnp.concatenate([jnp.zeros((2, 2)), jnp.eye(2), jnp.zeros((1, 2))]))
"""A model in which actions are displacements."""


@pytest.fixture(scope="module")
def explored():
    """The explorer's final state, its artifact, and its metrics, after 15,000 steps in the tree maze."""

    @jit
    def go(key):
        program = frontier(ENV, CONFIG)
        first, rest = program_keys(key, CONFIG.iterations)
        state, metrics = jax.lax.scan(program.step, program.init(first), rest)
        return state, program.finish(state), metrics

    return go(KEY)


def count_bins(states, side=0.1):
    """The number of bins that the recorded episodes visited."""
    assert (np.asarray(states.experience.lengths) == ENV.horizon).all()
    return len(np.unique(np.floor(np.asarray(states.experience.paths).reshape(-1, 2) / side), axis=0))


def cells(points):
    """The maze cell of each point, and the point's distance from the centre of the cell."""
    gaps = np.abs(np.asarray(points).reshape(-1, 1, 2) - LAYOUT.cells).max(axis=-1)
    return gaps.argmin(axis=1), gaps.min(axis=1)


def test_covers_more_than_a_random_walk_with_as_many_steps(explored):
    _, states, _ = explored
    config = RandomWalkConfig(iterations=15, rollouts=CONFIG.rollouts, num_samples=10)
    walked, _ = jit(lambda key: run_program(random_walk(ENV, config), key))(KEY)
    assert states.experience.paths.shape == walked.experience.paths.shape
    assert count_bins(states) > 1.15 * count_bins(walked)


def test_every_state_is_in_the_maze_and_every_cell_is_visited(explored):
    _, states, _ = explored
    found, gaps = cells(states.experience.paths)
    assert gaps.max() <= 0.5
    assert set(found) == set(range(len(LAYOUT.cells)))


def test_samples_are_visited_states_and_more_uniform_than_the_visits(explored):
    _, states, _ = explored
    visited = {tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 2)}
    assert {tuple(s) for s in np.asarray(states.samples)} <= visited
    shares = np.bincount(cells(states.samples)[0], minlength=len(LAYOUT.cells)) / len(states.samples)
    visit_shares = (
        np.bincount(cells(states.experience.paths)[0], minlength=len(LAYOUT.cells))
        / states.experience.paths[..., 0].size
    )
    assert shares.std() < 0.9 * visit_shares.std()


def test_cells_in_which_episodes_start_have_the_same_share_of_the_samples_as_others(explored):
    state, states, _ = explored
    samples = jit(frontier(ENV, dataclasses.replace(CONFIG, num_samples=50_000)).finish)(state).samples

    def cells_in(points):
        return np.asarray(jax.vmap(lambda s: cell_of(s / state.graph.unit, CONFIG.cell))(points.reshape(-1, 2)))

    visited, first = (
        np.unique(cells_in(points)) for points in (states.experience.paths, states.experience.paths[:, 0])
    )
    share = np.isin(cells_in(samples), first).mean()
    np.testing.assert_allclose(share, len(first) / len(visited), rtol=0.2)


def test_all_samples_are_in_the_region(explored):
    state, _, _ = explored
    config = dataclasses.replace(CONFIG, region=lambda s: s[0] < -1.0)
    samples = jit(frontier(ENV, config).finish)(state).samples
    assert samples.shape == (2000, 2)
    assert samples[:, 0].max() < -1.0


def test_the_model_and_the_counts_match_the_experience(explored):
    state, states, metrics = explored
    np.testing.assert_allclose(state.model.weights, FREE.weights, atol=0.02)
    assert jnp.sum(state.visits) == 15 * CONFIG.rollouts * ENV.horizon
    assert state.episodes == len(states.experience.paths) == 15 * CONFIG.rollouts
    assert jnp.sum(state.misses) > 0
    assert metrics["landmarks"][-1] == state.graph.count
    assert jnp.all(metrics["landmarks"] >= 64)
    assert jnp.mean(metrics["arrived"]) > 0.8


def test_late_episodes_follow_paths_to_far_landmarks(explored):
    # After 15 steps, late episodes are farther from the start than the random walks of the first iteration.
    _, states, _ = explored
    paths = np.asarray(states.experience.paths)
    reach = np.linalg.norm(paths[:, 15] - paths[:, 0], axis=-1)
    assert reach[-100:].mean() > 1.3 * reach[:20].mean()


def test_works_with_discrete_actions():
    small = FrontierConfig(iterations=2, rollouts=3, landmarks=80, num_samples=20)
    states, metrics = jax.eval_shape(lambda key: run_program(frontier(gridworld(5, 5, 6), small), key), KEY)
    assert states.samples.shape == (20, 2)
    assert metrics["arrived"].shape == (2,)


def test_a_pair_of_blocks_depends_on_the_origin():
    here, there, target = jnp.array([-1.2, 0.3]), jnp.array([1.2, 0.3]), jnp.array([0.1, 0.3])
    assert block_pair(here, target) != block_pair(there, target)
    assert block_pair(here, target) != block_pair(target, here)
    assert block_pair(here, target) == block_pair(here + 0.1, target + 0.1)


def state_with(visits=lambda s: jnp.bool_(False), misses=lambda s: jnp.bool_(False)):
    """A state in which some cells around the origin have ten visits, or ten misses from there."""
    grid = jnp.stack(jnp.meshgrid(jnp.arange(-30, 30), jnp.arange(-30, 30)), axis=-1).reshape(-1, 2) * 0.1 + 0.05
    rows = jax.vmap(lambda s: cell_of(s, 0.1))(grid)
    blocks = jax.vmap(lambda s: block_pair(jnp.zeros(2), s))(grid)
    return FrontierState(
        key=KEY,
        experience=None,  # type: ignore[arg-type]
        episodes=jnp.int32(0),
        graph=empty_graph(jnp.ones(2), 4, 0.5),
        visits=jnp.zeros(TABLE_SIZE).at[rows].max(10.0 * jax.vmap(visits)(grid)),
        misses=jnp.zeros(TABLE_SIZE).at[blocks].max(10.0 * jax.vmap(misses)(grid)),
        model=FREE,
    )


NEW_ON_THE_RIGHT = {"visits": lambda s: s[0] < 0.2, "misses": lambda s: s[0] < 0.5}
"""Only the cells to the right have no counts."""


@pytest.mark.parametrize("counts", ["visits", "misses"])
def test_aims_at_cells_without_visits_and_without_misses(counts):
    state = state_with(**{counts: NEW_ON_THE_RIGHT[counts]})
    no_targets = jnp.full(5, -1)
    for key in jax.random.split(KEY, 5):
        action, cell, blocks = LEAST_VISITED(key, state, no_targets)
        assert action[0] > 0.15
        assert cell == cell_of(action, 0.1)
        assert blocks == block_pair(jnp.zeros(2), action)


def test_does_not_aim_twice_at_one_cell_in_one_episode():
    state, targets = state_with(), jnp.full(5, -1)
    _, cell, _ = LEAST_VISITED(KEY, state, targets)
    _, other, _ = LEAST_VISITED(KEY, state, targets.at[0].set(cell))
    assert cell != other


LEAST_VISITED = jit(lambda key, state, targets: least_visited(key, ENV, FrontierConfig(), state, jnp.zeros(2), targets))


@pytest.mark.parametrize("counts", ["visits", "misses"])
def test_novelty_decreases_with_visits_and_misses(counts):
    new, half, old = (
        state_with(**{counts: where}) for where in (lambda s: s[0] > 99, lambda s: s[0] < 0, lambda s: s[0] < 99)
    )
    novelties = [float(NOVELTY(KEY, state)) for state in (new, half, old)]
    assert novelties[0] == pytest.approx(1.0)
    assert novelties[0] > novelties[1] + 0.2 > novelties[2] + 0.4


NOVELTY = jit(lambda key, state: novelty(key, state, jnp.zeros(2), FrontierConfig()))


def trip(**changes):
    """A trip that follows three landmarks at x = 0, 1, 2."""
    zero = jnp.int32(0)
    return Trip(jnp.array([0, 1, 2, 2]), jnp.int32(2), zero, zero, jnp.bool_(False), jnp.full(4, -1), zero)._replace(
        **changes
    )


GRAPH = dataclasses.replace(
    empty_graph(jnp.array([2.0, 2.0]), 3, 0.5),
    landmarks=jnp.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
    count=jnp.int32(3),
)
"""The unit is 2."""


def test_a_trip_goes_on_at_each_landmark_and_explores_at_the_last():
    going = follow_path(trip(), jnp.array([0.0, 0.0]), GRAPH, FrontierConfig(patience=2))
    assert (going.edges_done, going.attempts, going.exploring) == (0, 1, False)
    there = follow_path(going, jnp.array([1.9, 0.3]), GRAPH, FrontierConfig(patience=2))
    assert (there.edges_done, there.attempts, there.exploring) == (1, 0, False)
    arrived = follow_path(there, jnp.array([4.1, 0.0]), GRAPH, FrontierConfig(patience=2))
    assert (arrived.edges_done, arrived.exploring) == (2, True)


def test_a_trip_without_progress_is_given_up():
    now, exploring = trip(), []
    for _ in range(4):
        now = follow_path(now, jnp.array([0.1, 0.0]), GRAPH, FrontierConfig(patience=2))
        exploring.append(bool(now.exploring))
    assert exploring == [False, False, True, True]
    assert now.edges_done == 0


def test_actions_towards_a_target_follow_the_model():
    np.testing.assert_allclose(action_towards(ENV, FREE, jnp.zeros(2), jnp.array([0.4, -0.2])), [0.4, -0.2], atol=1e-3)
    one_hot = LinearModel(jnp.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]], jnp.float32))
    assert action_towards(gridworld(5, 5, 3), one_hot, jnp.zeros(2), jnp.array([-3.0, 1.0])) == 3

"""Our explorer sees more than a random walk does, follows its ways, and counts what it has seen."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.chart import blank_chart
from edl.envs import layouts
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.explore.frontier import (
    TABLE,
    FrontierConfig,
    FrontierState,
    Trip,
    cell_of,
    follow,
    frontier,
    least_visited,
    promise,
    shot_at,
    walk,
)
from edl.explore.linear_model import LinearModel
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.program import execute, keys_of
from tests.compiling import jit

LAYOUT = layouts.load("tree")
ENV = maze(LAYOUT)
CONFIG = FrontierConfig(iterations=14, landmarks=512, num_samples=2000)
KEY = jax.random.key(0)
FREE = LinearModel(jnp.concatenate([jnp.zeros((2, 2)), jnp.eye(2), jnp.zeros((1, 2))]))
"""Actions are displacements."""


@pytest.fixture(scope="module")
def explored():
    """The explorer's last state, what it hands over, and its metrics, after 15,000 steps in the tree maze."""

    @jit
    def go(key):
        program = frontier(ENV, CONFIG)
        first, rest = keys_of(key, CONFIG.iterations)
        state, metrics = jax.lax.scan(program.step, program.init(first), rest)
        return state, program.finish(state), metrics

    return go(KEY)


def bins(states, side=0.1):
    """How many bins the recorded episodes visited."""
    assert (np.asarray(states.experience.lengths) == ENV.horizon).all()
    return len(np.unique(np.floor(np.asarray(states.experience.paths).reshape(-1, 2) / side), axis=0))


def cells(points):
    """The cell of the maze that each point is in, and how far from its centre."""
    gaps = np.abs(np.asarray(points).reshape(-1, 1, 2) - LAYOUT.cells).max(axis=-1)
    return gaps.argmin(axis=1), gaps.min(axis=1)


def test_sees_more_than_a_random_walk_of_as_many_steps(explored):
    _, states, _ = explored
    config = RandomWalkConfig(iterations=15, rollouts=CONFIG.rollouts, num_samples=10)
    walked, _ = jit(lambda key: execute(random_walk(ENV, config), key))(KEY)
    assert states.experience.paths.shape == walked.experience.paths.shape
    assert bins(states) > 1.15 * bins(walked)


def test_every_state_is_in_the_maze_and_every_cell_is_found(explored):
    _, states, _ = explored
    found, gaps = cells(states.experience.paths)
    assert gaps.max() <= 0.5
    assert set(found) == set(range(len(LAYOUT.cells)))


def test_samples_are_visited_states_spread_evenly(explored):
    _, states, _ = explored
    visited = {tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 2)}
    assert {tuple(s) for s in np.asarray(states.samples)} <= visited
    shares = np.bincount(cells(states.samples)[0], minlength=len(LAYOUT.cells)) / len(states.samples)
    of_visits = (
        np.bincount(cells(states.experience.paths)[0], minlength=len(LAYOUT.cells))
        / states.experience.paths[..., 0].size
    )
    assert shares.std() < 0.9 * of_visits.std()


def test_a_region_holds_all_samples(explored):
    state, _, _ = explored
    config = dataclasses.replace(CONFIG, region=lambda s: s[0] < -1.0)
    samples = jit(frontier(ENV, config).finish)(state).samples
    assert samples.shape == (2000, 2)
    assert samples[:, 0].max() < -1.0


def test_the_model_and_the_counts_are_those_of_what_happened(explored):
    state, states, metrics = explored
    np.testing.assert_allclose(state.model.weights, FREE.weights, atol=0.02)
    assert jnp.sum(state.visits) == 15 * CONFIG.rollouts * ENV.horizon
    assert state.episodes == len(states.experience.paths) == 15 * CONFIG.rollouts
    assert jnp.sum(state.missed) > 0
    assert metrics["landmarks"][-1] == state.chart.count
    assert jnp.all(metrics["landmarks"] >= 64)
    assert jnp.mean(metrics["arrived"]) > 0.8


def test_it_goes_where_ways_lead(explored):
    # Late episodes begin with long straight walks to a far landmark: farther after ten steps than random walks are.
    _, states, _ = explored
    paths = np.asarray(states.experience.paths)
    reach = np.linalg.norm(paths[:, 15] - paths[:, 0], axis=-1)
    assert reach[-100:].mean() > 1.3 * reach[:20].mean()


def test_works_with_discrete_actions_and_starts_anywhere():
    small = FrontierConfig(iterations=2, rollouts=3, landmarks=80, num_samples=20)
    states, metrics = jax.eval_shape(lambda key: execute(frontier(gridworld(5, 5, 6), small), key), KEY)
    assert states.samples.shape == (20, 2)
    assert metrics["arrived"].shape == (2,)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_cells_are_rows_of_the_table_wherever_they_lie(size):
    points = np.random.default_rng(0).uniform(-1000, 1000, (3000, size)).astype(np.float32)
    rows = np.asarray(jax.vmap(lambda s: cell_of(s, 1.0))(points))
    assert rows.min() >= 0
    assert rows.max() < TABLE
    distinct = len(np.unique(np.floor(points), axis=0))
    assert len(np.unique(rows)) > 0.97 * distinct  # few collisions


def test_neighbouring_cells_have_rows_of_their_own_on_both_sides_of_zero():
    x, y = np.meshgrid(np.arange(-50, 50), np.arange(-50, 50))
    centres = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) + 0.5
    rows = np.asarray(jax.vmap(lambda s: cell_of(0.1 * s, 0.1))(centres))
    assert len(np.unique(rows)) > 0.97 * len(rows)
    again = np.asarray(jax.vmap(lambda s: cell_of(0.1 * s, 0.1))(centres + 0.3))
    np.testing.assert_array_equal(rows, again)


def test_a_shot_is_told_by_its_origin_too():
    here, there, target = jnp.array([-1.2, 0.3]), jnp.array([1.2, 0.3]), jnp.array([0.1, 0.3])
    assert shot_at(here, target) != shot_at(there, target)
    assert shot_at(here, target) != shot_at(target, here)
    assert shot_at(here, target) == shot_at(here + 0.1, target + 0.1)


def state_of(visited=lambda s: jnp.bool_(False), missed=lambda s: jnp.bool_(False)):
    """A state in which cells around the origin have been visited, or missed from there, ten times."""
    grid = jnp.stack(jnp.meshgrid(jnp.arange(-30, 30), jnp.arange(-30, 30)), axis=-1).reshape(-1, 2) * 0.1 + 0.05
    rows = jax.vmap(lambda s: cell_of(s, 0.1))(grid)
    shots = jax.vmap(lambda s: shot_at(jnp.zeros(2), s))(grid)
    return FrontierState(
        key=KEY,
        experience=None,  # type: ignore[arg-type]
        episodes=jnp.int32(0),
        chart=blank_chart(jnp.ones(2), 4, 0.5),
        visits=jnp.zeros(TABLE).at[rows].max(10.0 * jax.vmap(visited)(grid)),
        missed=jnp.zeros(TABLE).at[shots].max(10.0 * jax.vmap(missed)(grid)),
        model=FREE,
    )


RIGHT_SIDE = {"visited": lambda s: s[0] < 0.2, "missed": lambda s: s[0] < 0.5}
"""Only what lies to the right is new."""


@pytest.mark.parametrize("known", ["visited", "missed"])
def test_explores_where_it_has_not_been_and_not_where_it_missed(known):
    state = state_of(**{known: RIGHT_SIDE[known]})
    nothing = jnp.full(5, -1)
    for key in jax.random.split(KEY, 5):
        action, cell, shot = LEAST_VISITED(key, state, nothing)
        assert action[0] > 0.15
        assert cell == cell_of(action, 0.1)
        assert shot == shot_at(jnp.zeros(2), action)


def test_does_not_aim_twice_at_one_cell_in_one_episode():
    state, aimed = state_of(), jnp.full(5, -1)
    _, cell, _ = LEAST_VISITED(KEY, state, aimed)
    _, other, _ = LEAST_VISITED(KEY, state, aimed.at[0].set(cell))
    assert cell != other


LEAST_VISITED = jit(lambda key, state, aimed: least_visited(key, ENV, FrontierConfig(), state, jnp.zeros(2), aimed))


@pytest.mark.parametrize("known", ["visited", "missed"])
def test_a_landmark_promises_what_is_new_around_it(known):
    new, half, old = (
        state_of(**{known: what}) for what in (lambda s: s[0] > 99, lambda s: s[0] < 0, lambda s: s[0] < 99)
    )
    promises = [float(PROMISE(KEY, state)) for state in (new, half, old)]
    assert promises[0] == pytest.approx(1.0)
    assert promises[0] > promises[1] + 0.2 > promises[2] + 0.4


PROMISE = jit(lambda key, state: promise(key, state, jnp.zeros(2), FrontierConfig()))


def trip(**changes):
    """On the way along three landmarks at x = 0, 1, 2."""
    zero = jnp.int32(0)
    return Trip(jnp.array([0, 1, 2, 2]), jnp.int32(2), zero, zero, jnp.bool_(False), jnp.full(4, -1), zero)._replace(
        **changes
    )


CHART = dataclasses.replace(
    blank_chart(jnp.array([2.0, 2.0]), 3, 0.5),
    landmarks=jnp.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
    count=jnp.int32(3),
)
"""In units of two."""


def test_a_trip_moves_on_at_each_landmark_and_explores_at_the_last():
    going = follow(trip(), jnp.array([0.0, 0.0]), CHART, FrontierConfig(patience=2))
    assert (going.leg, going.tries, going.exploring) == (0, 1, False)
    there = follow(going, jnp.array([1.9, 0.3]), CHART, FrontierConfig(patience=2))
    assert (there.leg, there.tries, there.exploring) == (1, 0, False)
    arrived = follow(there, jnp.array([4.1, 0.0]), CHART, FrontierConfig(patience=2))
    assert (arrived.leg, arrived.exploring) == (2, True)


def test_a_trip_that_gets_nowhere_is_given_up():
    now, tries = trip(), []
    for _ in range(4):
        now = follow(now, jnp.array([0.1, 0.0]), CHART, FrontierConfig(patience=2))
        tries.append(bool(now.exploring))
    assert tries == [False, False, True, True]
    assert now.leg == 0


def test_walks_by_the_inverse_of_the_model():
    np.testing.assert_allclose(walk(ENV, FREE, jnp.zeros(2), jnp.array([0.4, -0.2])), [0.4, -0.2], atol=1e-3)
    one_hot = LinearModel(jnp.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]], jnp.float32))
    assert walk(gridworld(5, 5, 3), one_hot, jnp.zeros(2), jnp.array([-3.0, 1.0])) == 3

"""The chart has roads where walks were walked, none through walls, and finds the shortest ways along them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl import chart as charts
from edl.chart import FAILURE, GROWTH, NEW, TOLERANCE, blank_chart, close_roads, extend, make_room, unit_of
from edl.envs import layouts
from edl.envs.maze import maze
from edl.explore.random_walk import wander
from edl.nets.in_common import in_common
from edl.ways import apart, ways_from
from tests.compiling import jit

ROOMS = """\
+-+-+-+-+
|S  |   |
+ + + + +
|   |   |
+ + + + +
|   |  S|
+-+-+-+-+"""
WALL = 1.5
"""x of the wall between the two rooms, of which each has a start."""
BATCHES = 20
WAYS, EXTEND = jit(ways_from), jit(extend)


@pytest.fixture(scope="module")
def two_rooms():
    """A chart of two rooms that share a wall, from random walks on both sides; and the ways from the left room."""
    env = maze(layouts.parse(ROOMS), horizon=50)

    @jit
    def draw(key):
        keys = jax.random.split(key, (BATCHES, 20))
        paths, valid = jax.lax.map(jax.vmap(lambda key: walk(key, env)), keys)
        chart = blank_chart(unit_of(paths[0]), 512, 0.4)
        chart, _ = jax.lax.scan(lambda chart, batch: (extend(chart, *batch), None), chart, (paths, valid))
        middle = jnp.argmin(chart.gaps(jnp.array([[0.5, -1.0]]) / chart.unit)[0])
        return chart, ways_from(chart, middle[None])

    return draw(jax.random.key(0))


def walk(key, env):
    episode = wander(key, env, 0.5)
    return episode.features, episode.valid


def test_no_way_leads_through_a_wall(two_rooms):
    chart, ways = two_rooms
    count = int(chart.count)
    x = np.asarray(chart.landmarks * chart.unit)[:count, 0]
    tolerance = TOLERANCE * float(chart.unit[0])
    reached = np.isfinite(ways.hops[0, :count])
    assert not reached[x > WALL + tolerance].any()
    assert reached[x < WALL - tolerance].mean() > 0.95


def test_roads_alone_would_lead_through_the_wall(two_rooms):
    # Landmarks at the wall have roads to both sides: they may be reached, but not passed through.
    chart, ways = two_rooms
    everywhere = jnp.tile(10 * jnp.eye(2).reshape(-1), (len(chart.landmarks), 1))
    naive = WAYS(dataclasses.replace(chart, scatter=everywhere), ways.sources)
    assert np.isfinite(naive.hops[0, : int(chart.count)]).all()
    assert not np.isfinite(ways.hops[0, : int(chart.count)]).all()


def test_landmarks_are_visited_states_that_keep_their_distance(two_rooms):
    chart, _ = two_rooms
    gaps = np.asarray(chart.gaps(chart.landmarks))[: int(chart.count), : int(chart.count)]
    assert 200 < chart.count < 512
    assert np.min(gaps + 1e9 * np.eye(len(gaps))) >= 0.99 * 0.4**2
    np.testing.assert_array_equal(chart.traffic, chart.traffic.T)
    assert not np.isfinite(chart.gaps(chart.landmarks)[:, int(chart.count) :]).any()


def hand_made(positions, roads, *, passable=None, room=0):
    """A chart of landmarks on a line; ``roads`` are (one, other, traffic)."""
    count = len(positions)
    chart = blank_chart(jnp.ones(1), count + room, 0.5)
    traffic = np.zeros((count + room, count + room), np.float32)
    for one, other, walks in roads:
        traffic[one, other] = traffic[other, one] = walks
    crossed = np.ones(count) if passable is None else np.asarray(passable, float)
    return dataclasses.replace(
        chart,
        landmarks=chart.landmarks.at[:count, 0].set(jnp.asarray(positions, jnp.float32)),
        count=jnp.int32(count),
        scatter=chart.scatter.at[:count, 0].set(10 * jnp.asarray(crossed, jnp.float32)),
        traffic=jnp.asarray(traffic),
    )


LOOP = [(0, 1, 9), (1, 2, 9), (2, 3, 9), (0, 4, 1), (4, 3, 1)]


def way(chart, goal, sources=(0,), source=0):
    nodes, length = WAYS(chart, jnp.array(sources)).way(jnp.int32(source), jnp.int32(goal), 8)
    return nodes[: int(length) + 1].tolist()


def test_the_best_way_has_the_fewest_roads():
    assert way(hand_made(range(5), LOOP), 3) == [0, 4, 3]
    assert way(hand_made(range(5), LOOP), 2) == [0, 1, 2]
    assert way(hand_made(range(5), LOOP), 0) == [0]


def test_a_landmark_that_is_not_passable_is_a_destination_only():
    chart = hand_made(range(5), LOOP, passable=[1, 1, 1, 1, 0])
    assert way(chart, 3) == [0, 1, 2, 3]
    assert way(chart, 4) == [0, 4]


def test_of_two_ways_of_one_length_the_more_travelled_is_taken():
    assert way(hand_made(range(4), [(0, 1, 2), (1, 3, 2), (0, 2, 2), (2, 3, 5)]), 3) == [0, 2, 3]
    assert way(hand_made(range(4), [(0, 1, 2), (1, 3, 7), (0, 2, 2), (2, 3, 5)]), 3) == [0, 1, 3]


def test_sources_can_be_left_even_if_they_are_not_passable():
    assert way(hand_made(range(5), LOOP, passable=[0, 1, 1, 1, 1]), 2) == [0, 1, 2]


def test_what_cannot_be_reached_is_infinitely_far():
    chart = hand_made(range(4), [(0, 1, 1), (2, 3, 1)])
    ways = WAYS(chart, jnp.array([0, 3]))
    np.testing.assert_array_equal(ways.hops, [[0, 1, np.inf, np.inf], [np.inf, np.inf, 1, 0]])
    assert way(chart, 2, sources=(0, 3), source=1) == [3, 2]
    assert ways.source_of(chart, jnp.array([2.6])) == 1
    assert ways.source_of(chart, jnp.array([0.4])) == 0


def test_rows_that_are_not_in_use_are_no_landmarks():
    chart = hand_made(range(3), [(0, 1, 1), (1, 2, 1)], room=2)
    chart = dataclasses.replace(chart, traffic=chart.traffic.at[0, 4].set(9).at[4, 2].set(9))
    assert way(chart, 2) == [0, 1, 2]
    assert not np.isfinite(WAYS(chart, jnp.array([0])).hops[0, 3:]).any()


def test_a_failure_closes_a_road_that_few_have_walked_and_not_a_busy_one():
    chart = hand_made(range(5), LOOP)
    once = close_roads(chart, jnp.array([4, 2]), jnp.array([3, 1]), jnp.array([True, True]))
    assert way(once, 3) == [0, 1, 2, 3]
    assert once.traffic[1, 2] == once.traffic[2, 1] == 9 - FAILURE
    assert once.traffic[3, 4] == once.traffic[4, 3] == 1 - FAILURE
    thrice = close_roads(chart, jnp.array([2, 2, 1]), jnp.array([1, 1, 2]), jnp.array([True, True, True]))
    assert thrice.traffic[1, 2] == 9 - 3 * FAILURE
    untouched = close_roads(chart, jnp.array([4]), jnp.array([3]), jnp.array([False]))
    np.testing.assert_array_equal(untouched.traffic, chart.traffic)


def evidence(chart):
    """Evidence that tells which landmark it belongs to: its position."""
    x = jnp.where(chart.used, chart.landmarks[:, 0], 0.0)
    return dataclasses.replace(chart, scatter=x[:, None], traffic=jnp.outer(x, x))


def test_a_full_chart_is_thinned_and_its_evidence_moves_along():
    positions = np.random.default_rng(0).permutation(np.arange(1, 71) * 0.55)
    chart = jit(make_room)(evidence(hand_made(positions, [], room=NEW - 1)))
    count = int(chart.count)
    x = np.asarray(chart.landmarks[:count, 0])
    assert chart.spacing == pytest.approx(0.5 * GROWTH)
    assert 20 < count < 60
    assert np.min(np.diff(np.sort(x))) >= 0.5 * GROWTH
    assert np.max(np.abs(positions[:, None] - x).min(axis=1)) <= 0.56  # none was dropped without a neighbour
    assert set(x) <= set(np.float32(positions))
    expected = np.zeros(len(chart.landmarks), np.float32)
    expected[:count] = x
    np.testing.assert_array_equal(chart.scatter[:, 0], expected)
    np.testing.assert_allclose(chart.traffic, np.outer(expected, expected), rtol=1e-6)


def test_a_chart_with_room_stays_as_it_is():
    before = evidence(hand_made(np.arange(1, 11) * 0.55, [], room=NEW))
    after = jit(make_room)(before)
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_chords_by_hand():
    # From (0, 0) to (2, 0): past the first two landmarks, through the second, not near the third, nor beyond its end.
    chart = blank_chart(jnp.ones(2), 4, 0.5)
    landmarks = jnp.array([[0.1, 0.1], [1.0, -0.1], [1.0, 0.2], [2.2, 0.0]])
    chart = dataclasses.replace(chart, landmarks=landmarks, count=jnp.int32(4))
    passes, through, directions = charts.incidence(chart, jnp.zeros((1, 2)), jnp.array([[2.0, 0.0]]))
    np.testing.assert_array_equal(passes, [[1, 1, 0, 0]])
    np.testing.assert_array_equal(through, [[0, 1, 0, 0]])
    np.testing.assert_array_equal(directions, [[1, 0]])


def test_moves_of_length_zero_and_moves_that_do_not_count_are_no_evidence():
    paths = jnp.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    chart = EXTEND(blank_chart(jnp.ones(2), 8, 0.5), paths, jnp.array([[True, True, False]]))
    assert chart.count == 1  # of the states that were reached, (1, 0) alone counts
    np.testing.assert_array_equal(chart.scatter, 0.0)
    assert jnp.all(jnp.isfinite(chart.traffic))


def test_only_chords_in_every_direction_make_a_landmark_passable():
    across = [[[-1.0, y], [1.0, y]] for y in (-0.1, -0.05, 0.0, 0.05, 0.1)]
    upright = [[[y, x] for x, y in path] for path in across]
    landmark = dataclasses.replace(blank_chart(jnp.ones(2), 4, 9.0), count=jnp.int32(1))
    valid = jnp.ones((5, 1), bool)
    once = EXTEND(landmark, jnp.array(across), valid)
    assert not once.passable().any()
    assert EXTEND(once, jnp.array(upright), valid).passable().tolist() == [True, False, False, False]


def test_the_unit_is_the_typical_move_by_dimension():
    paths = jnp.array([[[0.0, 0.0, 5.0], [3.0, 0.1, 5.0], [7.0, 0.0, 5.0]]])
    np.testing.assert_allclose(unit_of(paths), [np.sqrt((9 + 16) / 2), 0.1, 1.0], rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_smallest_eigenvalues_are_those_of_numpy(size):
    factors = np.random.default_rng(size).normal(size=(20, size, size)).astype(np.float32)
    matrices = factors @ factors.transpose(0, 2, 1)
    expected = np.linalg.eigvalsh(matrices)[:, 0]
    np.testing.assert_allclose(charts.smallest_eigenvalue(jnp.asarray(matrices)), expected, atol=1e-5)


def test_sources_are_chosen_apart():
    chart = hand_made([0.0, 1.0, 5.0, 9.0], [])
    chosen = apart(chart, jnp.array([[0.1], [0.2], [9.0], [5.1], [8.8]]), 3)
    assert sorted(chosen.tolist()) == [0, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 17, 32, 33])
def test_what_is_in_common_does_not_depend_on_how_it_is_computed(count):
    rows = np.random.default_rng(count).uniform(size=(3, 20, 33)) < 0.2
    rows = (rows & (np.arange(33) < count)).astype(np.float32)
    expected = np.swapaxes(rows, 1, 2) @ rows
    np.testing.assert_array_equal(jit(in_common)(rows[0], jnp.int32(count)), expected[0])
    counts = jnp.array([max(count - 1, 0), count, 0])
    rows[0, :, count - 1 :], rows[2] = 0.0, 0.0
    several = jit(jax.vmap(in_common))(rows, counts)
    np.testing.assert_array_equal(several, np.swapaxes(rows, 1, 2) @ rows)
    shared = jit(jax.vmap(in_common, (None, 0)))(rows[1], jnp.array([count, count]))
    np.testing.assert_array_equal(shared, [expected[1]] * 2)

"""Shortest paths follow edges, never lead through a wall, and are the shortest."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from edl.graph.landmarks import TOLERANCE, penalise_edges
from edl.graph.shortest_paths import floyd_warshall, paths_from
from tests.compiling import jit
from tests.graph.graphs import LOOP, graph_on_a_line

WALL = 1.5
"""x of the wall between the two rooms. Each room has a start."""
PATHS_FROM = jit(paths_from)


def path(graph, goal, sources=(0,), source=0):
    landmarks, length = PATHS_FROM(graph, jnp.array(sources)).path(jnp.int32(source), jnp.int32(goal), 8)
    return landmarks[: int(length) + 1].tolist()


def test_no_path_leads_through_a_wall(two_rooms):
    graph, paths = two_rooms
    count = int(graph.count)
    x = np.asarray(graph.landmarks * graph.unit)[:count, 0]
    tolerance = TOLERANCE * float(graph.unit[0])
    reached = np.isfinite(paths.hops[0, :count])
    assert not reached[x > WALL + tolerance].any()
    assert reached[x < WALL - tolerance].mean() > 0.95


def test_paths_would_lead_through_the_wall_if_every_landmark_were_passable(two_rooms):
    # Landmarks at the wall have edges to both sides: a path may end there, but not continue.
    graph, paths = two_rooms
    all_passable = jnp.tile(10 * jnp.eye(2).reshape(-1), (len(graph.landmarks), 1))
    naive = PATHS_FROM(dataclasses.replace(graph, scatter=all_passable), paths.sources)
    assert np.isfinite(naive.hops[0, : int(graph.count)]).all()
    assert not np.isfinite(paths.hops[0, : int(graph.count)]).all()


def test_the_shortest_path_has_the_fewest_edges():
    assert path(graph_on_a_line(range(5), LOOP), 3) == [0, 4, 3]
    assert path(graph_on_a_line(range(5), LOOP), 2) == [0, 1, 2]
    assert path(graph_on_a_line(range(5), LOOP), 0) == [0]


def test_a_path_may_end_at_a_landmark_that_is_not_passable_but_not_continue():
    graph = graph_on_a_line(range(5), LOOP, passable=[1, 1, 1, 1, 0])
    assert path(graph, 3) == [0, 1, 2, 3]
    assert path(graph, 4) == [0, 4]


def test_of_two_paths_of_equal_length_the_one_with_more_traffic_is_chosen():
    assert path(graph_on_a_line(range(4), [(0, 1, 2), (1, 3, 2), (0, 2, 2), (2, 3, 5)]), 3) == [0, 2, 3]
    assert path(graph_on_a_line(range(4), [(0, 1, 2), (1, 3, 7), (0, 2, 2), (2, 3, 5)]), 3) == [0, 1, 3]


def test_a_path_may_leave_a_source_that_is_not_passable():
    assert path(graph_on_a_line(range(5), LOOP, passable=[0, 1, 1, 1, 1]), 2) == [0, 1, 2]


def test_unreachable_landmarks_are_infinitely_far():
    graph = graph_on_a_line(range(4), [(0, 1, 1), (2, 3, 1)])
    paths = PATHS_FROM(graph, jnp.array([0, 3]))
    np.testing.assert_array_equal(paths.hops, [[0, 1, np.inf, np.inf], [np.inf, np.inf, 1, 0]])
    assert path(graph, 2, sources=(0, 3), source=1) == [3, 2]
    assert paths.nearest_source(graph, jnp.array([2.6])) == 1
    assert paths.nearest_source(graph, jnp.array([0.4])) == 0


def test_unused_rows_are_no_landmarks():
    graph = graph_on_a_line(range(3), [(0, 1, 1), (1, 2, 1)], free_rows=2)
    graph = dataclasses.replace(graph, traffic=graph.traffic.at[0, 4].set(9).at[4, 2].set(9))
    assert path(graph, 2) == [0, 1, 2]
    assert not np.isfinite(PATHS_FROM(graph, jnp.array([0])).hops[0, 3:]).any()


def test_a_path_avoids_an_edge_that_was_removed_after_a_failure():
    graph = graph_on_a_line(range(5), LOOP)
    once = penalise_edges(graph, jnp.array([4, 2]), jnp.array([3, 1]), jnp.array([True, True]))
    assert path(once, 3) == [0, 1, 2, 3]


def test_floyd_warshall_by_hand():
    none = np.inf
    edges = jnp.array([[none, 1.0, 5.0, none], [1.0, none, 1.0, none], [5.0, 1.0, none, none], [none] * 4])
    expected = np.array([[0, 1, 2, none], [1, 0, 1, none], [2, 1, 0, none], [none, none, none, 0]])
    assert np.array_equal(np.asarray(floyd_warshall(edges)), expected)

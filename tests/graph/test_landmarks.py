"""The landmark graph: its landmarks, the evidence of moves, and farthest-point sampling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.graph.landmarks import (
    FAILURE_PENALTY,
    MAX_NEW_LANDMARKS,
    SPACING_GROWTH,
    add_episodes,
    empty_graph,
    farthest_landmarks,
    farthest_points,
    incidence,
    make_room,
    penalise_edges,
    smallest_eigenvalue,
    typical_move,
)
from tests.compiling import jit
from tests.graph.graphs import LOOP, graph_on_a_line

ADD_EPISODES = jit(add_episodes)


def test_landmarks_are_at_least_the_spacing_apart(two_rooms):
    graph, _ = two_rooms
    gaps = np.asarray(graph.squared_distances(graph.landmarks))[: int(graph.count), : int(graph.count)]
    assert 200 < graph.count < 512
    assert np.min(gaps + 1e9 * np.eye(len(gaps))) >= 0.99 * 0.4**2
    np.testing.assert_array_equal(graph.traffic, graph.traffic.T)
    assert not np.isfinite(graph.squared_distances(graph.landmarks)[:, int(graph.count) :]).any()


def test_landmarks_are_added_while_there_is_room():
    # Only states farther than the spacing (0.5) from all landmarks are added, the farthest first.
    states = jnp.array([[0.0], [0.4], [3.0], [1.0], [9.0]])
    valid = jnp.array([[True, True, True, True, False]])
    paths = jnp.concatenate([states[:1], states])[None]
    graph = ADD_EPISODES(empty_graph(jnp.ones(1), 6, 0.5), paths, valid)
    assert graph.landmarks[: int(graph.count), 0].tolist() == [0.0, 3.0, 1.0]
    full = ADD_EPISODES(empty_graph(jnp.ones(1), 2, 0.5), paths, valid)
    assert full.count == 2
    assert full.landmarks[:, 0].tolist() == [0.0, 3.0]


def test_a_failure_removes_a_rare_edge_and_not_a_busy_one():
    graph = graph_on_a_line(range(5), LOOP)
    once = penalise_edges(graph, jnp.array([4, 2]), jnp.array([3, 1]), jnp.array([True, True]))
    assert once.traffic[1, 2] == once.traffic[2, 1] == 9 - FAILURE_PENALTY
    assert once.traffic[3, 4] == once.traffic[4, 3] == 1 - FAILURE_PENALTY
    assert once.edges()[1, 2]
    assert not once.edges()[3, 4]
    thrice = penalise_edges(graph, jnp.array([2, 2, 1]), jnp.array([1, 1, 2]), jnp.array([True, True, True]))
    assert thrice.traffic[1, 2] == 9 - 3 * FAILURE_PENALTY
    unchanged = penalise_edges(graph, jnp.array([4]), jnp.array([3]), jnp.array([False]))
    np.testing.assert_array_equal(unchanged.traffic, graph.traffic)


def with_marked_evidence(graph):
    """Evidence that identifies its landmark by its position."""
    x = jnp.where(graph.used, graph.landmarks[:, 0], 0.0)
    return dataclasses.replace(graph, scatter=x[:, None], traffic=jnp.outer(x, x))


def test_thinning_out_a_full_graph_keeps_the_evidence_of_the_landmarks_that_remain():
    positions = np.random.default_rng(0).permutation(np.arange(1, 71) * 0.55)
    full = graph_on_a_line(positions, [], free_rows=MAX_NEW_LANDMARKS - 1)
    graph = jit(make_room)(with_marked_evidence(full))
    count = int(graph.count)
    x = np.asarray(graph.landmarks[:count, 0])
    assert graph.spacing == pytest.approx(0.5 * SPACING_GROWTH)
    assert 20 < count < 60
    assert np.min(np.diff(np.sort(x))) >= 0.5 * SPACING_GROWTH
    assert np.max(np.abs(positions[:, None] - x).min(axis=1)) <= 0.56  # every removed landmark has a neighbour left
    assert set(x) <= set(np.float32(positions))
    expected = np.zeros(len(graph.landmarks), np.float32)
    expected[:count] = x
    np.testing.assert_array_equal(graph.scatter[:, 0], expected)
    np.testing.assert_allclose(graph.traffic, np.outer(expected, expected), rtol=1e-6)


def test_a_graph_with_free_rows_is_not_thinned_out():
    before = with_marked_evidence(graph_on_a_line(np.arange(1, 11) * 0.55, [], free_rows=MAX_NEW_LANDMARKS))
    after = jit(make_room)(before)
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_incidence_by_hand():
    # The move from (0, 0) to (2, 0) passes the first two landmarks and goes through the second. The third is too far
    # to its side, and the fourth too far beyond its end.
    graph = empty_graph(jnp.ones(2), 4, 0.5)
    landmarks = jnp.array([[0.1, 0.1], [1.0, -0.1], [1.0, 0.2], [2.2, 0.0]])
    graph = dataclasses.replace(graph, landmarks=landmarks, count=jnp.int32(4))
    found = incidence(graph, jnp.zeros((1, 2)), jnp.array([[2.0, 0.0]]))
    np.testing.assert_array_equal(found.passes, [[1, 1, 0, 0]])
    np.testing.assert_array_equal(found.through, [[0, 1, 0, 0]])
    np.testing.assert_array_equal(found.directions, [[1, 0]])


def test_moves_of_length_zero_and_invalid_moves_are_no_evidence():
    paths = jnp.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    graph = ADD_EPISODES(empty_graph(jnp.ones(2), 8, 0.5), paths, jnp.array([[True, True, False]]))
    assert graph.count == 1  # (1, 0) is the only state that a valid move reached
    np.testing.assert_array_equal(graph.scatter, 0.0)
    assert jnp.all(jnp.isfinite(graph.traffic))


def test_a_landmark_is_passable_only_if_moves_cross_it_in_every_direction():
    across = [[[-1.0, y], [1.0, y]] for y in (-0.1, -0.05, 0.0, 0.05, 0.1)]
    upright = [[[y, x] for x, y in path] for path in across]
    landmark = dataclasses.replace(empty_graph(jnp.ones(2), 4, 9.0), count=jnp.int32(1))
    valid = jnp.ones((5, 1), bool)
    once = ADD_EPISODES(landmark, jnp.array(across), valid)
    assert not once.passable().any()
    assert ADD_EPISODES(once, jnp.array(upright), valid).passable().tolist() == [True, False, False, False]


def test_typical_move_per_dimension():
    paths = jnp.array([[[0.0, 0.0, 5.0], [3.0, 0.1, 5.0], [7.0, 0.0, 5.0]]])
    expected = [np.sqrt((9 + 16) / 2), 0.1, 1.0]
    np.testing.assert_allclose(typical_move(paths, jnp.ones((1, 2), bool)), expected, rtol=1e-5)


def test_steps_after_the_end_are_no_moves():
    rows = [[0.0, 0.0], [3.0, 0.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 4.0], [jnp.nan, 9.0]], [[0.0, 0.0]] * 3
    valid = jnp.array([[True, False], [True, False], [False, False]])
    # Moves of (3, 0) and (0, 4), and both dimensions share one unit.
    np.testing.assert_allclose(typical_move(jnp.array(rows), valid), np.sqrt([(9 + 16) / 4] * 2), rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_smallest_eigenvalues_agree_with_numpy(size):
    factors = np.random.default_rng(size).normal(size=(20, size, size)).astype(np.float32)
    matrices = factors @ factors.transpose(0, 2, 1)
    expected = np.linalg.eigvalsh(matrices)[:, 0]
    np.testing.assert_allclose(smallest_eigenvalue(jnp.asarray(matrices)), expected, atol=1e-5)


def test_farthest_points_chooses_the_farthest_point_and_never_an_excluded_one():
    points = jnp.array([[0.0], [0.25], [1.0], [2.0], [9.0]])
    allowed = jnp.array([True, True, True, True, False])
    chosen, gaps = farthest_points(points, jnp.where(allowed, jnp.inf, -jnp.inf), 4)
    assert chosen.tolist() == [0, 3, 2, 1]
    assert np.sqrt(gaps).tolist()[1:] == [2.0, 1.0, 0.25]


def test_farthest_landmarks_are_those_of_states_far_from_each_other():
    graph = graph_on_a_line([0.0, 1.0, 5.0, 9.0], [])
    chosen = farthest_landmarks(graph, jnp.array([[0.1], [0.2], [9.0], [5.1], [8.8]]), 3)
    assert sorted(chosen.tolist()) == [0, 2, 3]


@pytest.mark.parametrize(("capacity", "count", "thinned"), [(32, 16, False), (32, 17, True), (80, 40, False)])
def test_a_small_graph_is_thinned_out_when_half_of_it_is_used(capacity, count, thinned):
    graph = graph_on_a_line(np.arange(count) * 0.55, [], free_rows=capacity - count)
    assert (jit(make_room)(graph).spacing > graph.spacing) == thinned

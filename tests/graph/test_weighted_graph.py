"""Crossings of moves and segments, by hand."""

import jax.numpy as jnp
import numpy as np

from edl.graph.weighted_graph import crossing_points, crossings

MIDDLE, HALF = jnp.array([[0.0, 0.0]]), jnp.array([[1.0, 0.0]])
"""The segment from (-1, 0) to (1, 0)."""


def test_crossings_by_hand():
    starts, ends = jnp.array([[0.0, -1.0], [2.0, -1.0], [0.0, 0.1]]), jnp.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    assert crossings(starts, ends, MIDDLE, HALF)[:, 0].tolist() == [True, False, False]
    parallel = crossings(jnp.array([[-1.0, 0.0]]), jnp.array([[1.0, 0.0]]), MIDDLE, HALF)
    assert not parallel[0, 0]


def test_crossing_points_are_fractions_of_the_move():
    starts, ends = jnp.array([[0.5, -1.0], [0.5, 1.0], [2.0, 1.0]]), jnp.array([[0.5, 3.0], [0.5, -1.0], [2.0, -1.0]])
    np.testing.assert_allclose(crossing_points(starts, ends, MIDDLE, HALF)[:, 0], [0.25, 0.5, -1.0])

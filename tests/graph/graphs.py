"""Landmark graphs made by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from edl.graph.landmarks import empty_graph

LOOP = [(0, 1, 9), (1, 2, 9), (2, 3, 9), (0, 4, 1), (4, 3, 1)]
"""Two paths from landmark 0 to 3: a busy one with three edges, and a rare one with two."""


def graph_on_a_line(positions, edges, *, passable=None, free_rows=0):
    """A graph whose landmarks are on a line; ``edges`` are (landmark, landmark, traffic)."""
    count = len(positions)
    graph = empty_graph(jnp.ones(1), count + free_rows, 0.5)
    traffic = np.zeros((count + free_rows, count + free_rows), np.float32)
    for one, other, moves in edges:
        traffic[one, other] = traffic[other, one] = moves
    crossed = np.ones(count) if passable is None else np.asarray(passable, float)
    return dataclasses.replace(
        graph,
        landmarks=graph.landmarks.at[:count, 0].set(jnp.asarray(positions, jnp.float32)),
        count=jnp.int32(count),
        scatter=graph.scatter.at[:count, 0].set(10 * jnp.asarray(crossed, jnp.float32)),
        traffic=jnp.asarray(traffic),
    )

"""Landmark graphs whose edges have lengths, built from all moves of an experience: the graphs of walking distance.

In the plane, two moves are connected if and only if they cross, so a graph of crossing moves never joins the two sides
of a wall. In more dimensions moves do not cross, and the edges are those of a `LandmarkGraph` between passable
landmarks.

Lengths are in typical moves (`edl.graph.landmarks.typical_move`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.graph.cooccurrence import cooccurrence
from edl.graph.landmarks import (
    LandmarkGraph,
    add_evidence,
    add_landmarks,
    empty_graph,
    farthest_points,
    incidence,
    make_room,
)
from edl.types import Key, Scalar

EPISODES_PER_BATCH = 50
"""Episodes that are processed at a time; the number of episodes must be a multiple of it."""
MAX_CANDIDATES = 16384
"""Maximum number of moves from which landmarks are chosen."""
MIN_HALF_LENGTH = 0.25
"""Minimum half length of a landmark's segment."""
HALF_LENGTH_SHARE = 0.7
"""Half length of a landmark's segment, as a fraction of the least distance between landmarks."""


class WeightedGraph(NamedTuple):
    """Landmarks, and the lengths of the edges between them.

    In the plane, a landmark is a segment of a move: ``landmarks`` are the middles, and ``half_segments`` are the
    vectors from the middle to one end. Otherwise ``half_segments`` are zero. ``used`` says which rows are landmarks,
    ``edge_lengths`` are infinite without an edge, and ``starts`` says which landmarks the first move of an episode
    passed.
    """

    landmarks: Float[Array, "m s"]
    half_segments: Float[Array, "m s"]
    used: Bool[Array, " m"]
    edge_lengths: Float[Array, "m m"]
    starts: Bool[Array, " m"]


def weighted_graph(
    key: Key, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"], count: int, spacing: float | Scalar
) -> WeightedGraph:
    """A graph of at most ``count`` landmarks at least ``spacing`` apart, in any number of dimensions."""
    if paths.shape[-1] == 2:
        return planar_graph(key, paths, valid, count, spacing)
    return nonplanar_graph(paths, valid, count, spacing)


def planar_graph(
    key: Key, paths: Float[Array, "e t1 2"], valid: Bool[Array, "e t"], count: int, spacing: float | Scalar
) -> WeightedGraph:
    """Landmarks are segments of moves, and an edge joins two landmarks if one move crosses both."""
    starts, ends = paths[:, :-1].reshape(-1, 2), paths[:, 1:].reshape(-1, 2)
    length = jnp.linalg.norm(ends - starts, axis=1) * valid.reshape(-1)
    candidates = jax.random.permutation(key, starts.shape[0])[:MAX_CANDIDATES]
    middles = 0.5 * (starts + ends)[candidates]
    long_enough = length[candidates] > 2 * MIN_HALF_LENGTH
    chosen, gaps = farthest_points(middles, jnp.where(long_enough, jnp.inf, -jnp.inf), count)
    gaps = jnp.sqrt(jnp.maximum(gaps, 0.0))
    used = gaps > spacing
    half_length = jnp.maximum(MIN_HALF_LENGTH, HALF_LENGTH_SHARE * jnp.min(jnp.where(used, gaps, jnp.inf)))
    rows = candidates[chosen]
    landmarks = middles[chosen]
    share = jnp.minimum(0.5, half_length / jnp.maximum(length[rows], 1e-6))
    half_segments = (ends - starts)[rows] * share[:, None]

    def add(traffic: Float[Array, "m m"], batch: tuple) -> tuple[Float[Array, "m m"], None]:
        starts, ends, valid = batch
        crossed = crossings(starts, ends, landmarks, half_segments) & valid[:, None] & used
        return traffic + cooccurrence(crossed.astype(jnp.float32), jnp.sum(used)), None

    size = EPISODES_PER_BATCH * valid.shape[1]
    batches = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), (starts, ends, valid.reshape(-1)))
    traffic, _ = jax.lax.scan(add, jnp.zeros((count, count)), batches)
    straight = jnp.linalg.norm(landmarks[:, None] - landmarks, axis=-1)
    edge_lengths = jnp.where(traffic >= 1, straight, jnp.inf)
    first = crossings(paths[:, 0], paths[:, 1], landmarks, half_segments) & valid[:, :1]
    return WeightedGraph(landmarks, half_segments, used, edge_lengths, jnp.any(first, axis=0))


def nonplanar_graph(
    paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"], count: int, spacing: float | Scalar
) -> WeightedGraph:
    """Landmarks are the passable landmarks of a `LandmarkGraph`, and so are the edges between them."""
    graph = empty_graph(jnp.ones(paths.shape[-1]), count, spacing)
    batches = jax.tree.map(lambda x: x.reshape(-1, EPISODES_PER_BATCH, *x.shape[1:]), (paths, valid))

    def add(graph: LandmarkGraph, batch: tuple) -> tuple[LandmarkGraph, None]:
        paths, valid = batch
        ends = paths[:, 1:].reshape(-1, paths.shape[-1])
        return make_room(add_landmarks(graph, ends, valid.reshape(-1))), None

    # All landmarks are placed before evidence is added: otherwise a late landmark would lack that of earlier episodes.
    graph, _ = jax.lax.scan(add, graph, batches)
    graph, _ = jax.lax.scan(lambda graph, batch: (add_evidence(graph, *batch), None), graph, batches)
    passable = graph.passable()
    lengths = jnp.sqrt(jnp.maximum(graph.squared_distances(graph.landmarks), 0.0))
    edge_lengths = jnp.where(graph.edges() & passable[:, None] & passable, lengths, jnp.inf)
    first = incidence(graph, paths[:, 0], paths[:, 1])
    starts = jnp.sum(first.passes * valid[:, :1], axis=0) > 0
    return WeightedGraph(graph.landmarks, jnp.zeros_like(graph.landmarks), passable, edge_lengths, starts)


def crossings(
    starts: Float[Array, "n 2"], ends: Float[Array, "n 2"], middles: Float[Array, "m 2"], halves: Float[Array, "m 2"]
) -> Bool[Array, "n m"]:
    """Whether move n crosses the segment ``middles[m] +- halves[m]``."""
    return crossing_points(starts, ends, middles, halves) >= 0


def crossing_points(
    starts: Float[Array, "n 2"], ends: Float[Array, "n 2"], middles: Float[Array, "m 2"], halves: Float[Array, "m 2"]
) -> Float[Array, "n m"]:
    """The fraction of move n at which it crosses the segment ``middles[m] +- halves[m]``, or -1 if it does not cross.

    They cross if the two lines intersect inside both.
    """

    def cross(u: tuple[Array, Array], v: tuple[Array, Array]) -> Float[Array, "n m"]:
        return u[0] * v[1] - u[1] * v[0]

    move = (ends - starts)[:, 0, None], (ends - starts)[:, 1, None]
    half = halves[:, 0], halves[:, 1]
    between = middles[:, 0] - starts[:, 0, None], middles[:, 1] - starts[:, 1, None]
    determinant = cross(move, half)
    sign = jnp.sign(determinant)
    on_move, on_half = cross(between, half) * sign, cross(between, move) * sign
    size = jnp.abs(determinant)
    intersect = (size > 1e-9) & (on_move >= 0) & (on_move <= size) & (jnp.abs(on_half) <= size)
    return jnp.where(intersect, on_move / jnp.maximum(size, 1e-9), -1.0)

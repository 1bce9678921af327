"""Shortest paths in a landmark graph: the fewest edges from a few sources, or the least length between all pairs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.graph.landmarks import LandmarkGraph


class ShortestPaths(NamedTuple):
    """Paths with the fewest edges from a few source landmarks to all others.

    ``hops`` is the number of edges of each path, and ``previous`` is the landmark before each landmark on its path (the
    landmark itself at a source, or if there is no path).
    """

    sources: Int[Array, " c"]
    hops: Float[Array, "c m"]
    previous: Int[Array, "c m"]

    def nearest_source(self, graph: LandmarkGraph, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The row of the source nearest to a state."""
        return jnp.argmin(jnp.sum((graph.landmarks[self.sources] - state / graph.unit) ** 2, axis=1))

    def path(
        self, source: Int[Array, ""], goal: Int[Array, ""], max_length: int
    ) -> tuple[Int[Array, " l"], Int[Array, ""]]:
        """The landmarks on the path from a source (in row 0) to the goal, and the number of its edges."""

        def step_back(landmark, _):
            previous = self.previous[source, landmark]
            return previous, (landmark, previous != landmark)

        _, (landmarks, moving) = jax.lax.scan(step_back, goal, length=max_length)
        length = jnp.sum(moving)
        return landmarks[jnp.clip(length - jnp.arange(max_length), 0)], length


def paths_from(graph: LandmarkGraph, sources: Int[Array, " c"]) -> ShortestPaths:
    """Breadth-first search from every source.

    Following an edge takes about one step, so the shortest path is the one with the fewest edges. If several edges can
    end such a path, it uses the one with the most traffic. A path may leave a source that is not passable.
    """
    passable = graph.passable().at[sources].set(True)
    edges = graph.edges() & passable[:, None]
    hops = count_hops(edges.astype(jnp.float32), sources)
    return ShortestPaths(sources, hops, previous_landmarks(graph.traffic, edges, hops))


def count_hops(edges: Float[Array, "m m"], sources: Int[Array, " c"]) -> Float[Array, "c m"]:
    """The least number of edges from each source to each landmark; infinite without a path."""
    start = jax.nn.one_hot(sources, edges.shape[0])

    def widen(carry):
        reached, hops, depth, _ = carry
        wider = jnp.minimum(reached + reached @ edges, 1.0)
        wider = (wider > 0).astype(jnp.float32)
        hops = jnp.where((wider > 0) & (reached == 0), depth + 1, hops)
        return wider, hops, depth + 1, jnp.any(wider > reached)

    first = (start, jnp.where(start > 0, 0.0, jnp.inf), jnp.float32(0), jnp.bool_(True))
    _, hops, _, _ = jax.lax.while_loop(lambda carry: carry[3], widen, first)
    return hops


def previous_landmarks(
    traffic: Float[Array, "m m"], edges: Bool[Array, "m m"], hops: Float[Array, "c m"]
) -> Int[Array, "c m"]:
    """The landmark before each landmark on its path: of the candidates, the one whose edge has the most traffic."""
    size = edges.shape[0]
    # Traffic and source of an edge in one integer: one maximum finds both. On a CPU, argmax takes three times as long.
    traffic = jnp.clip(traffic, 0, 2**31 // size - 1).astype(jnp.int32) * edges
    words = traffic * size + jnp.arange(size)[::-1, None]

    def previous(hops: Float[Array, " m"]) -> Int[Array, " m"]:
        leads = hops[:, None] + 1 == hops[None, :]
        best = size - 1 - jnp.max(jnp.where(leads, words, size - 1), axis=0) % size
        return jnp.where(jnp.isfinite(hops) & (hops > 0), best, jnp.arange(hops.shape[0]))

    return jax.vmap(previous)(hops)


def floyd_warshall(edge_lengths: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The length of the shortest path between all pairs of landmarks; ``edge_lengths`` are infinite without an edge."""
    size = edge_lengths.shape[0]

    def relax(k: Int[Array, ""], lengths: Float[Array, "m m"]) -> Float[Array, "m m"]:
        return jnp.minimum(lengths, lengths[:, k, None] + lengths[None, k])

    return jax.lax.fori_loop(0, size, relax, jnp.where(jnp.eye(size, dtype=bool), 0.0, edge_lengths))

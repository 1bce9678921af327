"""A landmark graph, built from experience alone: landmarks are visited states, and edges are observed moves.

Walls are thin, the agent does not observe them, and it rests against both sides of them. Two states can therefore be
close and yet separated, and a rule that joins close states would join the two sides of a wall. The only evidence used
here is the moves that were made. A move is the straight segment from s_t to s_{t+1}:

* An edge joins two landmarks if a move passed within ``TOLERANCE`` of both.
* A path may go *through* a landmark (it is *passable*) only if moves crossed it in every direction. A landmark near a
  wall can be within ``TOLERANCE`` of both sides and would join them, but moves cross it only along the wall. Such a
  landmark can end a path but cannot continue it.

The second rule needs no model of walls and works in any number of dimensions: the scatter matrix of the directions of
the moves through a landmark must have no small eigenvalue.

Lengths are in units of a typical move (see `typical_move`), so the constants do not depend on the size of the env.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.graph.cooccurrence import cooccurrence
from edl.nets.linalg import exact_matmul, squared_distances
from edl.types import Scalar

TOLERANCE = 0.15
"""A move passes a landmark if it comes this close to it."""
TOLERANCE_GROWTH = 2.0
"""Every dimension after the second multiplies the tolerance by this: in more dimensions, moves pass farther apart."""
THROUGH_MARGIN = 2.0
"""A move goes through a landmark if it extends at least this many tolerances to both sides."""
MIN_ISOTROPY = 0.25
"""A passable landmark's smallest eigenvalue is at least this fraction of the average eigenvalue."""
MIN_MOVES_THROUGH = 4.0
"""Minimum number of moves through a passable landmark."""
SIMILAR_SCALES = 5.0
"""Dimensions whose typical moves differ by at most this factor share one unit."""
MAX_NEW_LANDMARKS = 64
"""Maximum number of landmarks added per batch of episodes."""
FAILURE_PENALTY = 4.0
"""A failed attempt to follow an edge cancels this many moves along it."""
SPACING_GROWTH = 1.25
"""The spacing grows by this factor when the graph is full."""


class LandmarkGraph(eqx.Module):
    """Landmarks and the evidence for edges between them. Only the first ``count`` rows are landmarks.

    ``unit`` is the typical move, and ``landmarks`` are in this unit. ``scatter`` is the sum of u u^T over the
    directions u of the moves through each landmark. ``traffic`` is the number of moves that passed both landmarks,
    minus `FAILURE_PENALTY` per failed attempt to follow the edge.
    """

    unit: Float[Array, " s"]
    spacing: Scalar
    landmarks: Float[Array, "m s"]
    count: Int[Array, ""]
    scatter: Float[Array, "m d"]
    traffic: Float[Array, "m m"]

    @property
    def used(self) -> Bool[Array, " m"]:
        """Whether each row is a landmark."""
        return jnp.arange(self.landmarks.shape[0]) < self.count

    def edges(self) -> Bool[Array, "m m"]:
        """Whether an edge joins two landmarks."""
        return (self.traffic >= 1) & self.used[:, None] & self.used[None]

    def passable(self) -> Bool[Array, " m"]:
        """Whether a path may go through each landmark: moves crossed it in every direction."""
        size = self.landmarks.shape[1]
        scatter = self.scatter.reshape(-1, size, size)
        through = jnp.trace(scatter, axis1=1, axis2=2)
        smallest = smallest_eigenvalue(scatter)
        return self.used & (through >= MIN_MOVES_THROUGH) & (smallest >= MIN_ISOTROPY * through / size)

    def squared_distances(self, states: Float[Array, "n s"]) -> Float[Array, "n m"]:
        """Squared distances from states (in units) to landmarks; infinite for unused rows."""
        landmarks = self.landmarks
        squares = jnp.sum(states**2, 1)[:, None] + jnp.sum(landmarks**2, 1) - 2 * exact_matmul(states, landmarks.T)
        return jnp.where(self.used, squares, jnp.inf)


class Incidence(NamedTuple):
    """1 where a move passes a landmark, 1 where it goes through the landmark, and the directions of the moves."""

    passes: Float[Array, "n m"]
    through: Float[Array, "n m"]
    directions: Float[Array, "n s"]


def typical_move(paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"]) -> Float[Array, " s"]:
    """The root mean square of the ``valid`` moves per dimension, which is the unit of length; see `shared_unit`."""
    squares = (paths[:, 1:] - paths[:, :-1]) ** 2
    return shared_unit(jnp.sqrt(jnp.mean(squares, axis=(0, 1), where=valid[..., None])))


def shared_unit(size: Float[Array, " s"]) -> Float[Array, " s"]:
    """The unit of each dimension, whose typical length is ``size``.

    If the lengths of all dimensions differ by at most the factor `SIMILAR_SCALES`, they share one unit, so that a
    corridor does not stretch the dimension across it. Otherwise each dimension has its own unit. A dimension without
    any move keeps its scale.
    """
    moving = size > 1e-8
    similar = jnp.max(size) <= SIMILAR_SCALES * jnp.min(jnp.where(moving, size, jnp.inf))
    common = jnp.sqrt(jnp.sum(size**2) / jnp.maximum(jnp.sum(moving), 1))
    return jnp.where(moving, jnp.where(similar, common, size), 1.0)


def empty_graph(unit: Float[Array, " s"], capacity: int, spacing: float | Scalar) -> LandmarkGraph:
    """A graph with room for ``capacity`` landmarks that are at least ``spacing`` apart."""
    size = unit.shape[0]
    return LandmarkGraph(
        unit=unit,
        spacing=jnp.asarray(spacing, jnp.float32),
        landmarks=jnp.zeros((capacity, size)),
        # The barrier stops XLA from constant-folding the operations on an empty graph, which takes seconds to compile.
        count=jax.lax.optimization_barrier(jnp.int32(0)),
        scatter=jnp.zeros((capacity, size * size)),
        traffic=jnp.zeros((capacity, capacity)),
    )


def add_episodes(graph: LandmarkGraph, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"]) -> LandmarkGraph:
    """Add landmarks at states that are far from all landmarks, then the evidence of all moves."""
    ends = (paths[:, 1:] / graph.unit).reshape(-1, paths.shape[-1])
    return add_evidence(add_landmarks(graph, ends, valid.reshape(-1)), paths, valid)


def add_landmarks(graph: LandmarkGraph, states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> LandmarkGraph:
    """Add the state farthest from all landmarks, while it is farther than the spacing and there is room."""
    capacity = graph.landmarks.shape[0]
    gaps = jnp.where(valid, jnp.min(graph.squared_distances(states), axis=1), -jnp.inf)
    chosen, gaps = farthest_points(states, gaps, MAX_NEW_LANDMARKS)
    rows = graph.count + jnp.arange(MAX_NEW_LANDMARKS)
    # The gaps never increase, so the states that are added come first.
    added = (gaps > graph.spacing**2) & (rows < capacity)
    landmarks = graph.landmarks.at[jnp.where(added, rows, capacity)].set(states[chosen], mode="drop")
    return eqx.tree_at(lambda g: (g.landmarks, g.count), graph, (landmarks, graph.count + jnp.sum(added)))


def farthest_points(
    points: Float[Array, "n s"], gaps: Float[Array, " n"], count: int
) -> tuple[Int[Array, " k"], Float[Array, " k"]]:
    """Farthest-point sampling: choose the point with the largest gap, ``count`` times.

    A point's gap is its squared distance to the nearest chosen point. ``gaps`` are the gaps at the start: infinite if
    nothing is chosen yet, and -infinite for points that must not be chosen. Returns the rows of the chosen points and
    the gap of each when it was chosen.
    """

    def choose(gaps: Float[Array, " n"], _: None) -> tuple[Float[Array, " n"], tuple[Int[Array, ""], Scalar]]:
        best = jnp.argmax(gaps)
        return jnp.minimum(gaps, squared_distances(points[best], points)), (best, gaps[best])

    return jax.lax.scan(choose, gaps, length=count)[1]


def farthest_landmarks(graph: LandmarkGraph, states: Float[Array, "e s"], count: int) -> Int[Array, " c"]:
    """The landmarks nearest to ``count`` of the states that are far from each other."""
    chosen, _ = farthest_points(states, jnp.full(states.shape[0], jnp.inf), count)
    return jnp.argmin(graph.squared_distances(states[chosen] / graph.unit), axis=1)


def add_evidence(graph: LandmarkGraph, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"]) -> LandmarkGraph:
    """Add the evidence of moves: their directions through landmarks, and the traffic between landmarks."""
    states = paths / graph.unit
    starts, ends = states[:, :-1].reshape(-1, states.shape[-1]), states[:, 1:].reshape(-1, states.shape[-1])
    valid = valid.reshape(-1)
    passes, through, directions = incidence(graph, starts, ends)
    passes, through = (jnp.where(valid[:, None], x, 0.0) for x in (passes, through))
    outer = jax.vmap(lambda u: jnp.outer(u, u).reshape(-1))(directions)
    return LandmarkGraph(
        unit=graph.unit,
        spacing=graph.spacing,
        landmarks=graph.landmarks,
        count=graph.count,
        scatter=graph.scatter + exact_matmul(through.T, outer),
        traffic=graph.traffic + cooccurrence(passes, graph.count),
    )


def incidence(graph: LandmarkGraph, starts: Float[Array, "n s"], ends: Float[Array, "n s"]) -> Incidence:
    """Which moves pass which landmarks."""
    moves = ends - starts
    length = jnp.sqrt(jnp.sum(moves**2, axis=1))
    directions = moves / jnp.maximum(length, 1e-6)[:, None]
    along = exact_matmul(directions, graph.landmarks.T) - jnp.sum(directions * starts, axis=1)[:, None]
    beyond = along - jnp.clip(along, 0.0, length[:, None])
    tolerance = TOLERANCE * TOLERANCE_GROWTH ** max(starts.shape[1] - 2, 0)
    passes = graph.squared_distances(starts) - along**2 + beyond**2 <= tolerance**2
    margin = THROUGH_MARGIN * tolerance
    through = passes & (along >= margin) & (along <= length[:, None] - margin)
    return Incidence(passes.astype(jnp.float32), through.astype(jnp.float32), directions)


def smallest_eigenvalue(matrices: Float[Array, "m s s"]) -> Float[Array, " m"]:
    """The smallest eigenvalue of symmetric matrices; in closed form up to two dimensions, which compiles faster."""
    if matrices.shape[-1] == 1:
        return matrices[:, 0, 0]
    if matrices.shape[-1] == 2:
        half = 0.5 * (matrices[:, 0, 0] + matrices[:, 1, 1])
        gap = 0.5 * (matrices[:, 0, 0] - matrices[:, 1, 1])
        return half - jnp.sqrt(gap**2 + matrices[:, 0, 1] ** 2)
    return jnp.linalg.eigvalsh(matrices)[:, 0]


def penalise_edges(
    graph: LandmarkGraph, sources: Int[Array, " n"], targets: Int[Array, " n"], failed: Bool[Array, " n"]
) -> LandmarkGraph:
    """Reduce the traffic of edges that the agent failed to follow: a rare edge is removed, a frequent one remains."""
    penalty = jnp.where(failed, FAILURE_PENALTY, 0.0)
    traffic = graph.traffic.at[sources, targets].add(-penalty).at[targets, sources].add(-penalty)
    return eqx.tree_at(lambda g: g.traffic, graph, traffic)


def make_room(graph: LandmarkGraph) -> LandmarkGraph:
    """Thin out the graph if fewer than `MAX_NEW_LANDMARKS` rows are free, or half of the rows if there are few."""
    capacity = graph.landmarks.shape[0]
    full = graph.count > capacity - min(MAX_NEW_LANDMARKS, capacity // 2)
    return jax.lax.cond(full, thin_out, lambda graph: graph, graph)


def thin_out(graph: LandmarkGraph) -> LandmarkGraph:
    """Increase the spacing and remove every landmark that is closer than the new spacing to an earlier one."""
    size = graph.landmarks.shape[0]
    spacing = SPACING_GROWTH * graph.spacing
    close = graph.squared_distances(graph.landmarks) < spacing**2

    def keep(kept: Bool[Array, " m"], row: Int[Array, ""]) -> tuple[Bool[Array, " m"], None]:
        return kept.at[row].set(graph.used[row] & ~jnp.any(kept & close[row])), None

    kept, _ = jax.lax.scan(keep, jnp.zeros(size, bool), jnp.arange(size))
    order = jnp.argsort(~kept, stable=True)
    mask = jnp.where(kept[order], 1.0, 0.0)
    return LandmarkGraph(
        unit=graph.unit,
        spacing=spacing,
        landmarks=graph.landmarks[order],
        count=jnp.sum(kept),
        scatter=graph.scatter[order] * mask[:, None],
        traffic=graph.traffic[order][:, order] * mask[:, None] * mask,
    )

"""The set of visited states, in fixed memory, from which points are drawn uniformly: by volume, not by visits.

* Up to `MAX_CELL_DIMENSIONS` features: the cells of a grid that were visited (`CellSet`). When there are more cells
  than fit, the side of a cell doubles.
* Beyond that, a grid has too many cells: visited states, thinned out where they are dense (`ParticleSet`).

Nothing here knows the bounds of the env. Lengths are in ``unit``, the spread of the first states (`unit_of_spread`), so
the set of an env whose coordinates are all multiplied by 100 is the same set.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Real

from edl.config import check
from edl.graph.landmarks import shared_unit
from edl.nets.linalg import exact_matmul, mean_nearest
from edl.types import Key, Scalar

MAX_CELL_DIMENSIONS = 4
"""Maximum number of features for which visited cells are stored."""
MAX_POWER = 4.0
"""Visited states are kept with weights r^MAX_POWER, where r is the distance to the nearest other states. In d
dimensions the inverse density is ~ r^d, but if d is large, a few outliers would have all the weight. The states of a
robot vary in far fewer directions than they have dimensions."""
POINT_IN_CELL = 12**-0.5
"""Standard deviation of a uniform point in a cell of side 1, in each dimension: a single cell has a spread, too."""
ROWS_PER_BATCH = 256
"""Number of states whose neighbours are searched at once."""


class VisitedSet(eqx.Module):
    """The visited states. Points are in the coordinates of the env; lengths are in ``unit``."""

    unit: eqx.AbstractVar[Float[Array, " s"]]
    centre: eqx.AbstractVar[Float[Array, " s"]]
    """The median of the set's points in each dimension, in the coordinates of the env."""
    spread: eqx.AbstractVar[Scalar]
    """The median distance of the set's points from their centre: for a disc of radius R, it is R / sqrt(2)."""

    @property
    @abc.abstractmethod
    def size(self) -> Int[Array, ""]:
        """Number of visited cells, or of stored states."""

    @abc.abstractmethod
    def add(self, key: Key, states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> "VisitedSet":
        """The set with the valid ones of these states."""

    @abc.abstractmethod
    def draw(self, key: Key) -> Float[Array, " s"]:
        """A point of the set, drawn uniformly."""

    @abc.abstractmethod
    def visited(self) -> tuple[Float[Array, "n s"], Float[Array, " n"]]:
        """Visited states, and weights with which they are a uniform sample of the set (0: not a state)."""


class CellSet(VisitedSet):
    """The first ``count`` rows are the visited cells: cell c is the cube from c side to (c + 1) side.

    ``states`` are the last visited states of each cell; ``written`` is how many were ever stored in it.
    """

    unit: Float[Array, " s"]
    centre: Float[Array, " s"]
    spread: Scalar
    side: Scalar
    corners: Int[Array, "c s"]
    count: Int[Array, ""]
    states: Float[Array, "c k s"]
    written: Int[Array, " c"]

    @property
    def size(self) -> Int[Array, ""]:
        return self.count

    @property
    def used(self) -> Bool[Array, " c"]:
        return jnp.arange(self.corners.shape[0]) < self.count

    def add(self, key: Key, states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> "CellSet":
        """Add the cells of the states. Each cell stores some of its new states, in place of its oldest ones."""
        capacity, per_cell = self.states.shape[:2]
        valid = jnp.concatenate([self.used, valid & jnp.all(jnp.isfinite(states), axis=1)])
        new_corners = jnp.floor(states / self.unit / self.side).astype(jnp.int32)
        corners = jnp.concatenate([self.corners, new_corners])
        tie = jnp.concatenate([jnp.full(capacity, -1.0), jax.random.uniform(key, states.shape[:1])])
        groups = jax.lax.while_loop(
            lambda groups: groups.count > capacity,
            lambda groups: group_by_cell(corners, valid, tie, groups.doublings + 1),
            group_by_cell(corners, valid, tie, jnp.int32(0)),
        )
        is_new = (groups.order >= capacity) & valid[groups.order]
        leaders = jnp.where(groups.first, groups.cell, capacity)
        source = jnp.full(capacity, -1).at[jnp.where(is_new, capacity, leaders)].set(groups.order, mode="drop")
        written = jnp.where(source >= 0, self.written[source], 0)
        # The rank of a new state among the new states of its cell, in random order.
        total = jnp.cumsum(is_new)
        before = jnp.zeros(capacity, jnp.int32).at[leaders].set(total - is_new, mode="drop")
        rank = total - 1 - before[groups.cell]
        cell = jnp.where(is_new & (rank < per_cell), groups.cell, capacity)
        slot = (written[groups.cell] + rank) % per_cell
        ordered = states[jnp.maximum(groups.order - capacity, 0)]
        side = self.side * 2.0**groups.doublings
        corners = jnp.zeros_like(self.corners).at[leaders].set(groups.corners, mode="drop")
        centre, distance = centre_and_distance(corners, jnp.arange(capacity) < groups.count)
        return CellSet(
            unit=self.unit,
            centre=(centre + 0.5) * side * self.unit,
            spread=side * jnp.hypot(distance, POINT_IN_CELL),
            side=side,
            corners=corners,
            count=groups.count,
            states=self.states[source].at[cell, slot].set(ordered, mode="drop"),
            written=written.at[cell].add(1, mode="drop"),
        )

    def draw(self, key: Key) -> Float[Array, " s"]:
        cell_key, point_key = jax.random.split(key)
        corner = self.corners[jax.random.randint(cell_key, (), 0, jnp.maximum(self.count, 1))]
        return (corner + jax.random.uniform(point_key, corner.shape)) * self.side * self.unit

    def visited(self) -> tuple[Float[Array, "n s"], Float[Array, " n"]]:
        filled = (jnp.arange(self.states.shape[1]) < self.written[:, None]) & self.used[:, None]
        weights = filled / jnp.maximum(jnp.sum(filled, axis=1, keepdims=True), 1)
        return self.states.reshape(-1, self.states.shape[-1]), weights.reshape(-1)


class Groups(NamedTuple):
    """Rows sorted by their cell, after ``doublings`` of the side.

    ``order`` are the numbers of the rows, ``corners`` their cells, and ``cell`` the numbers of the cells, from 0.
    ``first`` marks the first row of each cell. ``count`` is the number of cells. Invalid rows are last.
    """

    doublings: Int[Array, ""]
    order: Int[Array, " n"]
    corners: Int[Array, "n s"]
    cell: Int[Array, " n"]
    first: Bool[Array, " n"]
    count: Int[Array, ""]


def group_by_cell(
    corners: Int[Array, "n s"], valid: Bool[Array, " n"], tie: Float[Array, " n"], doublings: Int[Array, ""]
) -> Groups:
    """Sort the valid rows by their cell, and within a cell by ``tie``."""
    corners = corners >> doublings
    order = jnp.lexsort((tie, *corners.T, ~valid))
    corners, valid = corners[order], valid[order]
    differs = jnp.any(corners[1:] != corners[:-1], axis=1)
    first = valid & jnp.concatenate([jnp.ones(1, bool), differs])
    return Groups(doublings, order, corners, jnp.cumsum(first) - 1, first, jnp.sum(first))


class ParticleSet(VisitedSet):
    """Visited states, kept in inverse proportion to their density. The first ``count`` rows are states."""

    unit: Float[Array, " s"]
    centre: Float[Array, " s"]
    spread: Scalar
    states: Float[Array, "p s"]
    count: Int[Array, ""]
    neighbours: int = eqx.field(static=True)

    @property
    def size(self) -> Int[Array, ""]:
        return self.count

    @property
    def used(self) -> Bool[Array, " p"]:
        return jnp.arange(self.states.shape[0]) < self.count

    def add(self, key: Key, states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> "ParticleSet":
        """Add a random choice of the states, then keep as many as fit, with weights by their nearest neighbours.

        A sample in proportion to 1 / density is uniform over the set, however often each part of it was visited.
        """
        choose_key, keep_key = jax.random.split(key)
        capacity = self.states.shape[0]
        valid = valid & jnp.all(jnp.isfinite(states), axis=1)
        priority = jnp.where(valid, jax.random.uniform(choose_key, valid.shape), -1.0)
        _, chosen = jax.lax.top_k(priority, min(capacity, valid.shape[0]))
        pool = jnp.concatenate([self.states, states[chosen]])
        real = jnp.concatenate([self.used, valid[chosen]])
        scaled = pool / self.unit
        # Each state is its own nearest neighbour.
        gaps = jax.lax.map(
            lambda state: mean_nearest(state, scaled, real, self.neighbours + 1), scaled, batch_size=ROWS_PER_BATCH
        )
        # With too few states for a distance, there is room for all of them, whatever their weights.
        log_weights = MAX_POWER * jnp.log(jnp.maximum(jnp.where(jnp.isfinite(gaps), gaps, 1.0), 1e-6))
        scores = jnp.where(real, log_weights + jax.random.gumbel(keep_key, real.shape), -jnp.inf)
        _, kept = jax.lax.top_k(scores, capacity)
        count = jnp.minimum(jnp.sum(real), capacity)
        centre, spread = centre_and_distance(scaled[kept], jnp.arange(capacity) < count)
        return ParticleSet(self.unit, centre * self.unit, spread, pool[kept], count, self.neighbours)

    def draw(self, key: Key) -> Float[Array, " s"]:
        return self.states[jax.random.randint(key, (), 0, jnp.maximum(self.count, 1))]

    def visited(self) -> tuple[Float[Array, "n s"], Float[Array, " n"]]:
        return self.states, self.used.astype(jnp.float32)


def centre_and_distance(points: Real[Array, "n s"], real: Bool[Array, " n"]) -> tuple[Float[Array, " s"], Scalar]:
    """The centre of the ``real`` points, the median of each dimension, and their median distance from it.

    Unlike the mean and the root mean square, these hardly change if physics throws the agent far away once.
    """
    centre = jnp.nanmedian(jnp.where(real[:, None], points, jnp.nan), axis=0)
    return centre, jnp.nanmedian(jnp.where(real, jnp.linalg.norm(points - centre, axis=1), jnp.nan))


def unit_of_spread(states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> Float[Array, " s"]:
    """The standard deviation per dimension, which is the unit of length; similar dimensions share it (`shared_unit`).

    A dimension that does not vary has the largest unit of the others.
    """
    weights = valid / jnp.maximum(jnp.sum(valid), 1)
    states = jnp.where(valid[:, None], states, 0.0)
    deviation = jnp.sqrt(exact_matmul(weights, (states - exact_matmul(weights, states)) ** 2))
    largest = jnp.max(deviation)
    largest = jnp.where(largest > 0, largest, 1.0)
    return largest * shared_unit(deviation / largest)


def empty_set(unit: Float[Array, " s"], config: Any) -> VisitedSet:
    """Cells in few dimensions, particles in many. ``config`` is that of an explorer, which has their settings."""
    size = unit.shape[0]
    if size > MAX_CELL_DIMENSIONS:
        return empty_particles(unit, config.particles, config.neighbours)
    check(
        config.cells >= 2**size,
        f"cells must be at least {2**size} for {size} features (got {config.cells}). Change --explorer.cells.",
    )
    return empty_cells(unit, config.cell, config.cells, config.states_per_cell)


def empty_cells(unit: Float[Array, " s"], side: float | Scalar, capacity: int, per_cell: int) -> CellSet:
    """Room for ``capacity`` cells, whose side is at first ``side``, with ``per_cell`` states each."""
    return CellSet(
        unit=unit,
        centre=jnp.zeros_like(unit),
        spread=jnp.float32(0.0),
        side=jnp.asarray(side, jnp.float32),
        corners=jnp.zeros((capacity, unit.shape[0]), jnp.int32),
        # The barrier stops XLA from constant-folding the operations on an empty set.
        count=jax.lax.optimization_barrier(jnp.int32(0)),
        states=jnp.zeros((capacity, per_cell, unit.shape[0])),
        written=jnp.zeros(capacity, jnp.int32),
    )


def empty_particles(unit: Float[Array, " s"], capacity: int, neighbours: int) -> ParticleSet:
    """Room for ``capacity`` states, whose density is estimated from their ``neighbours`` nearest ones."""
    count = jax.lax.optimization_barrier(jnp.int32(0))
    states = jnp.zeros((capacity, unit.shape[0]))
    return ParticleSet(unit, jnp.zeros_like(unit), jnp.float32(0.0), states, count, neighbours)

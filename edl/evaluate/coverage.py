"""Coverage: the share of the reachable bins that some states visited.

A grid is a dense bitmap over a bounding box, so that a state finds its bin by arithmetic and a batch is one scatter.
Bins tile the cells of a maze exactly, and a state's cell is found before its bin: a point just short of a wall can't be
rounded into a bin behind it.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience
from edl.config import check
from edl.envs.layouts import Layout
from edl.types import Scalar

NEVER = np.iinfo(np.int32).max
MAX_BINS = 10_000_000
LARGE_MAZE = 64
"""Mazes with this many cells or more get bins of side 0.1, others of 0.05."""


class Grid(eqx.Module):
    """Cells of side ``side``, of which number 0 is centred at ``centre``, each cut into ``per_cell`` bins a side.

    The bounding box starts with cell number ``first``. Its bins are numbered by row; ``reachable`` marks those that
    count. ``dims`` are the dimensions of the state that the grid looks at.
    """

    centre: Float[Array, " d"]
    side: Float[Array, " d"]
    first: Float[Array, " d"]
    reachable: Bool[Array, " bins"]
    per_cell: int = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    dims: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Bins in the bounding box, reachable or not."""
        return math.prod(self.shape)

    def bin_of(self, states: Float[Array, "*n s"]) -> Int[Array, "*n"]:
        """The number of each state's bin; ``size`` for a state outside the bounding box (or not a number)."""
        place = (states[..., jnp.array(self.dims)] - self.centre) / self.side
        # The distance to the nearest whole number is exact in floating point; x + 0.5 is not.
        cell = jnp.round(place)
        cell = jnp.where(place - cell >= 0.5, cell + 1, cell)
        within = jnp.floor((place - cell + 0.5) * self.per_cell)
        position = (cell - self.first) * self.per_cell + jnp.clip(within, 0, self.per_cell - 1)
        shape = jnp.array(self.shape)
        inside = jnp.all((position >= 0) & (position < shape), axis=-1)
        strides = np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int32)
        number = jnp.sum(jnp.where(inside[..., None], position, 0).astype(jnp.int32) * strides, axis=-1)
        return jnp.where(inside, number, self.size)


def bins_of(layout: Layout) -> Grid:
    """The fine grid of a maze, for what an explorer visits."""
    return maze_grid(layout, 10 if len(layout.cells) >= LARGE_MAZE else 20)


def cells_of(layout: Layout) -> Grid:
    """The unit cells of a maze, for what skills visit."""
    return maze_grid(layout, 1)


def maze_grid(layout: Layout, per_cell: int) -> Grid:
    """Bins of side ``1 / per_cell`` over ``layout.cells``, the centres of the unit cells."""
    cells = np.asarray(layout.cells)
    first = cells.min(axis=0)
    index = np.rint(cells - first).astype(int)
    mask = np.zeros(index.max(axis=0) + 1, bool)
    mask[tuple(index.T)] = True
    mask = mask.repeat(per_cell, axis=0).repeat(per_cell, axis=1)
    # Cells are centred at whole numbers: number 0 is the cell at the origin.
    first = jnp.asarray(np.rint(first), jnp.float32)
    return Grid(jnp.zeros(2), jnp.ones(2), first, jnp.asarray(mask.ravel()), per_cell, mask.shape, (0, 1))


def box_grid(low: Sequence[float], high: Sequence[float], num: Sequence[int], dims: Sequence[int]) -> Grid:
    """``num`` bins a dimension over ``[low, high]`` of the named dimensions, in a world whose walls nobody knows."""
    low_, high_ = np.asarray(low, float), np.asarray(high, float)
    same = len(low_) == len(high_) == len(num) == len(dims) > 0
    got = f"bounds {low} to {high}, {num} bins, dimensions {dims}"
    check(same, got, "wanted as many of one as of the other", "Make them equally long.")
    check(bool(np.all(high_ > low_)), f"bounds {low} to {high}", "each low must be below its high", "Widen them.")
    check(min(num) > 0, f"{num} bins", "wanted at least one a dimension", "Ask for more.")
    got = f"{math.prod(num)} bins in {len(num)} dimensions"
    check(
        math.prod(num) <= MAX_BINS, got, f"wanted at most {MAX_BINS}", "Name fewer dimensions, or ask for fewer bins."
    )
    side = (high_ - low_) / np.asarray(num)
    centre, side = jnp.asarray(low_ + side / 2, jnp.float32), jnp.asarray(side, jnp.float32)
    reachable = jnp.ones(math.prod(num), bool)
    return Grid(centre, side, jnp.zeros(len(num)), reachable, 1, tuple(num), tuple(dims))


def visited(
    grid: Grid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool = True
) -> Bool[Array, " {grid.size}"]:
    """Which bins hold at least one of the states. Bitmaps of batches are joined by ``|``."""
    return jnp.zeros(grid.size, bool).at[_where_valid(grid, states, valid)].set(True, mode="drop")


def visits(
    grid: Grid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool = True
) -> Int[Array, " {grid.size}+1"]:
    """How many of the states each bin holds; the last entry is for those outside the bounding box."""
    bins = grid.bin_of(states)
    ones = jnp.broadcast_to(jnp.asarray(valid, jnp.int32), bins.shape)
    return jnp.zeros(grid.size + 1, jnp.int32).at[bins].add(ones)


def coverage(grid: Grid, bitmap: Bool[Array, " {grid.size}"]) -> Scalar:
    """Share of the reachable bins that are set."""
    return jnp.sum(bitmap & grid.reachable) / jnp.sum(grid.reachable)


def first_visits(grid: Grid, experience: Experience) -> Int[Array, " {grid.size}"]:
    """The environment step that first reached each bin, `NEVER` if none did.

    A start state is no step itself: it comes with the first step taken from it.
    """
    steps, valid = clock(experience)
    bins = _where_valid(grid, experience.paths, valid)
    return jnp.full(grid.size, NEVER, jnp.int32).at[bins].min(steps, mode="drop")


def data_coverage(grid: Grid, experience: Experience, first_steps: int | None = None) -> Scalar:
    """Share of the reachable bins that an explorer visited, all in all or within its first environment steps."""
    last = NEVER - 1 if first_steps is None else first_steps
    return coverage(grid, first_visits(grid, experience) <= last)


def coverage_curve(grid: Grid, experience: Experience, steps: Int[Array, " c"]) -> Float[Array, " c"]:
    """Data coverage within each of these numbers of environment steps, from one pass over the experience."""
    first = jnp.sort(jnp.where(grid.reachable, first_visits(grid, experience), NEVER))
    return jnp.searchsorted(first, steps, side="right") / jnp.sum(grid.reachable)


def clock(experience: Experience) -> tuple[Int[Array, "e t1"], Bool[Array, "e t1"]]:
    """When each state was reached, in environment steps, and whether it is real: an unplayed episode has none."""
    lengths = experience.lengths[:, None]
    time = jnp.arange(experience.paths.shape[1])
    before = jnp.cumsum(lengths, axis=0) - lengths
    return before + jnp.maximum(time, 1), (time <= lengths) & (lengths > 0)


def _where_valid(grid: Grid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool) -> Int[Array, "*n"]:
    """The bins of the valid states; the others are sent outside."""
    return jnp.where(valid, grid.bin_of(states), grid.size)

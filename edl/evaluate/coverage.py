"""Coverage: the share of the reachable bins that were visited.

A grid is a dense bitmap over a bounding box: the bin of a state is computed by arithmetic, and a batch of states is one
scatter. Bins tile the cells of a maze exactly, and a state's cell is computed before its bin, so that rounding cannot
move a point next to a wall into a bin behind it.
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
"""Mazes with at least this many cells have bins of side 0.1, others of side 0.05."""


class BinGrid(eqx.Module):
    """Cells of side ``side``, each divided into ``per_cell`` bins per side.

    Cell 0 is centred at ``centre``; the bounding box starts with cell ``first``. Bins are numbered by row, and
    ``reachable`` marks those that count. ``dims`` are the dimensions of the state that the grid covers.
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
        """Number of bins in the bounding box, reachable or not."""
        return math.prod(self.shape)

    def bin_of(self, states: Float[Array, "*n s"]) -> Int[Array, "*n"]:
        """The number of each state's bin; ``size`` for a state that is NaN or outside the bounding box."""
        place = (states[..., jnp.array(self.dims)] - self.centre) / self.side
        # The difference from the nearest whole number is exact in floating point; x + 0.5 is not.
        cell = jnp.round(place)
        cell = jnp.where(place - cell >= 0.5, cell + 1, cell)
        within = jnp.floor((place - cell + 0.5) * self.per_cell)
        position = (cell - self.first) * self.per_cell + jnp.clip(within, 0, self.per_cell - 1)
        shape = jnp.array(self.shape)
        inside = jnp.all((position >= 0) & (position < shape), axis=-1)
        strides = np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int32)
        number = jnp.sum(jnp.where(inside[..., None], position, 0).astype(jnp.int32) * strides, axis=-1)
        return jnp.where(inside, number, self.size)


def bins_of(layout: Layout) -> BinGrid:
    """The fine grid of a maze, for the coverage of explorers."""
    return maze_grid(layout, bins_per_side(layout))


def bins_per_side(layout: Layout) -> int:
    """Number of bins along each side of a cell."""
    return 10 if len(layout.cells) >= LARGE_MAZE else 20


def cells_of(layout: Layout) -> BinGrid:
    """The unit cells of a maze, for the coverage of skills."""
    return maze_grid(layout, 1)


def maze_grid(layout: Layout, per_cell: int) -> BinGrid:
    """Bins of side ``1 / per_cell`` over ``layout.cells``, the centres of the unit cells."""
    cells = np.asarray(layout.cells)
    first = cells.min(axis=0)
    index = np.rint(cells - first).astype(int)
    mask = np.zeros(index.max(axis=0) + 1, bool)
    mask[tuple(index.T)] = True
    mask = mask.repeat(per_cell, axis=0).repeat(per_cell, axis=1)
    # Cells are centred at whole numbers: cell 0 is at the origin.
    first = jnp.asarray(np.rint(first), jnp.float32)
    return BinGrid(jnp.zeros(2), jnp.ones(2), first, jnp.asarray(mask.ravel()), per_cell, mask.shape, (0, 1))


def box_grid(low: Sequence[float], high: Sequence[float], num: Sequence[int], dims: Sequence[int]) -> BinGrid:
    """``num`` bins per dimension over ``[low, high]`` of the dimensions ``dims``, for envs that are not mazes."""
    low_, high_ = np.asarray(low, float), np.asarray(high, float)
    same = len(low_) == len(high_) == len(num) == len(dims) > 0
    got = f"low={low}, high={high}, num={num}, dims={dims}"
    check(same, f"low, high, num and dims must have the same length, at least 1 (got {got}).")
    check(bool(np.all(high_ > low_)), f"each low must be below its high (got low={low}, high={high}).")
    check(min(num) > 0, f"num must be at least 1 bin per dimension (got {num}).")
    total = f"{math.prod(num)} bins in {len(num)} dimensions"
    check(
        math.prod(num) <= MAX_BINS,
        f"a grid must have at most {MAX_BINS} bins (got {total}). Use fewer dimensions or bins.",
    )
    side = (high_ - low_) / np.asarray(num)
    centre, side = jnp.asarray(low_ + side / 2, jnp.float32), jnp.asarray(side, jnp.float32)
    reachable = jnp.ones(math.prod(num), bool)
    return BinGrid(centre, side, jnp.zeros(len(num)), reachable, 1, tuple(num), tuple(dims))


def visited(
    grid: BinGrid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool = True
) -> Bool[Array, " {grid.size}"]:
    """Which bins contain at least one of the states. Combine the bitmaps of batches with ``|``."""
    return jnp.zeros(grid.size, bool).at[_where_valid(grid, states, valid)].set(True, mode="drop")


def visit_counts(
    grid: BinGrid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool = True
) -> Int[Array, " {grid.size}+1"]:
    """Number of states in each bin; the last entry counts states outside the bounding box."""
    bins = grid.bin_of(states)
    ones = jnp.broadcast_to(jnp.asarray(valid, jnp.int32), bins.shape)
    return jnp.zeros(grid.size + 1, jnp.int32).at[bins].add(ones)


def coverage(grid: BinGrid, bitmap: Bool[Array, " {grid.size}"]) -> Scalar:
    """Share of the reachable bins that are set."""
    return jnp.sum(bitmap & grid.reachable) / jnp.sum(grid.reachable)


def first_visits(grid: BinGrid, experience: Experience) -> Int[Array, " {grid.size}"]:
    """The environment step that first reached each bin, `NEVER` if none did.

    A start state is not a step; it counts as reached with the first step of its episode.
    """
    steps, valid = visit_steps(experience)
    bins = _where_valid(grid, experience.paths, valid)
    return jnp.full(grid.size, NEVER, jnp.int32).at[bins].min(steps, mode="drop")


def data_coverage(grid: BinGrid, experience: Experience, first_steps: int | None = None) -> Scalar:
    """Share of the reachable bins that an explorer visited, in total or in its first ``first_steps`` steps."""
    last = NEVER - 1 if first_steps is None else first_steps
    return coverage(grid, first_visits(grid, experience) <= last)


def coverage_curve(grid: BinGrid, experience: Experience, steps: Int[Array, " c"]) -> Float[Array, " c"]:
    """Data coverage after each of these numbers of environment steps, from one pass over the experience."""
    first = jnp.sort(jnp.where(grid.reachable, first_visits(grid, experience), NEVER))
    return jnp.searchsorted(first, steps, side="right") / jnp.sum(grid.reachable)


def visit_steps(experience: Experience) -> tuple[Int[Array, "e t1"], Bool[Array, "e t1"]]:
    """The environment step that reached each state, and whether the state is valid; unplayed episodes have none."""
    lengths = experience.lengths[:, None]
    time = jnp.arange(experience.paths.shape[1])
    before = jnp.cumsum(lengths, axis=0) - lengths
    return before + jnp.maximum(time, 1), (time <= lengths) & (lengths > 0)


def _where_valid(grid: BinGrid, states: Float[Array, "*n s"], valid: Bool[Array, "*n"] | bool) -> Int[Array, "*n"]:
    """The bins of the valid states; invalid states get the number ``size``, which is outside."""
    return jnp.where(valid, grid.bin_of(states), grid.size)

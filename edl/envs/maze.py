"""Point mazes: the paper's envs, and any maze written as text.

A state is a position (x, y), an action is a displacement in [-0.95, 0.95]^2, walls are not observed, and an episode has
50 steps (the paper's table of environment details). A maze consists of arrays, so mazes can be vmapped: see `stack`.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.envs import geometry, layouts
from edl.envs.base import Box, Env, Step
from edl.envs.geometry import Walls
from edl.envs.layouts import Layout
from edl.types import Key

HORIZON = 50
"""Default number of steps per episode."""
MAX_ACTION = 0.95
START_MARGIN = 0.05
"""Minimum distance between the start of an episode and the border of its start cell."""


class MazeState(NamedTuple):
    """The position of the point, and the number of steps so far."""

    position: Float[Array, " 2"]
    time: Int[Array, ""]


class Maze(Env):
    """A maze. The first ``num_cells`` of ``cells`` and ``num_starts`` of ``starts`` are real, the rest is padding."""

    walls: Walls
    cells: Float[Array, "c 2"]
    num_cells: Int[Array, ""]
    starts: Float[Array, "m 2"]
    num_starts: Int[Array, ""]
    horizon: int = eqx.field(static=True, default=HORIZON)
    observation_size: int = eqx.field(static=True, default=2)
    feature_size: int = eqx.field(static=True, default=2)

    @property
    def action_space(self) -> Box:
        """Displacements. `step` clips them to the box."""
        return Box(low=jnp.full(2, -MAX_ACTION), high=jnp.full(2, MAX_ACTION))

    def reset(self, key: Key) -> MazeState:
        """A uniform point in a uniform start cell, not too close to the cell's border."""
        position = _in_cells(key, self.starts, self.num_starts, 0.5 - START_MARGIN)
        return MazeState(position, jnp.int32(0))

    def step(self, key: Key, state: MazeState, action: Float[Array, " 2"]) -> Step:
        """Move, and slide along walls. Mazes never terminate."""
        motion = jnp.clip(action, -MAX_ACTION, MAX_ACTION)
        reached = MazeState(geometry.slide(key, self.walls, state.position, motion), state.time + 1)
        return Step(reached, self.observe(reached), jnp.bool_(False), reached.time >= self.horizon)

    def observe(self, state: MazeState) -> Float[Array, " 2"]:
        return state.position

    def features(self, observation: Float[Array, " 2"]) -> Float[Array, " 2"]:
        return observation

    def sample_states(self, key: Key, n: int) -> Float[Array, "n 2"]:
        """The oracle: ``n`` positions, uniform over the reachable area."""
        return jax.vmap(lambda key: _in_cells(key, self.cells, self.num_cells, 0.5))(jax.random.split(key, n))


def _in_cells(key: Key, cells: Float[Array, "c 2"], count: Int[Array, ""], reach: float) -> Float[Array, " 2"]:
    """A uniform point in one of the first ``count`` cells, at most ``reach`` from its centre along each axis."""
    cell_key, point_key = jax.random.split(key)
    index = jax.random.randint(cell_key, (), 0, count)
    return cells[index] + jax.random.uniform(point_key, (2,), minval=-reach, maxval=reach)


def maze(layout: Layout | str | pathlib.Path, horizon: int = HORIZON) -> Maze:
    """A maze from a layout, the name of a built-in layout, or a text file."""
    layout = layout if isinstance(layout, Layout) else layouts.load(layout)
    return Maze(
        walls=geometry.walls(layout.walls),
        cells=jnp.asarray(layout.cells, jnp.float32),
        num_cells=jnp.int32(len(layout.cells)),
        starts=jnp.asarray(layout.starts, jnp.float32),
        num_starts=jnp.int32(len(layout.starts)),
        horizon=horizon,
    )


class MazeShape(NamedTuple):
    """The sizes of the arrays of a maze, padding included: walls per axis, cells, and start cells."""

    walls: int
    cells: int
    starts: int


def shape_of(mazes: Sequence[Maze]) -> MazeShape:
    """The smallest shape to which all of the mazes can be padded."""
    return MazeShape(
        walls=max(each.walls.level.shape[-1] for each in mazes),
        cells=max(len(each.cells) for each in mazes),
        starts=max(len(each.starts) for each in mazes),
    )


def pad_to_shape(each: Maze, shape: MazeShape) -> Maze:
    """The same maze with larger arrays. Its dynamics do not change, because nothing can touch an empty wall."""
    return Maze(
        walls=geometry.pad(each.walls, shape.walls),
        cells=_pad_rows(each.cells, shape.cells),
        num_cells=each.num_cells,
        starts=_pad_rows(each.starts, shape.starts),
        num_starts=each.num_starts,
        horizon=each.horizon,
    )


def stack(mazes: Sequence[Maze]) -> Maze:
    """Mazes with the same horizon as one pytree with a leading axis, padded to one shape: ``vmap`` over it."""
    shape = shape_of(mazes)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(pad_to_shape(each, shape) for each in mazes))


def _pad_rows(rows: Float[Array, "n 2"], count: int) -> Float[Array, "m 2"]:
    return jnp.pad(rows, ((0, count - len(rows)), (0, 0)), mode="edge")

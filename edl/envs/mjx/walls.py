"""The walls of a text maze as boxes around a robot. A maze of any size costs the same as four boxes.

A cell is `UNITS_PER_CELL` units wide, and a wall between two posts is a box. A robot that is narrower than a cell
touches only walls that meet at the post nearest to it: the lines of all other walls are at least half a cell away. So
the model that MJX simulates has four boxes, one for each direction in which a wall can leave a post, and every physics
step moves them to the nearest post. A box without a wall is moved far below the floor. `all_walls` adds every wall of a
maze to a model instead, for MuJoCo on the CPU and for pictures.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from edl.envs.layouts import DIRECTIONS, Layout
from edl.envs.mjx.library import load_library

UNITS_PER_CELL = 4.0
HALF_THICKNESS = 0.2
HEIGHT = 10.0
"""Height of a wall in units. Gym's ant is about 1 high, but its motors are strong enough to jump over 2."""
MAX_CONTACTS = 25
"""The solver gets this many contacts, the deepest ones: as many as Gym's ant can have with the floor. Random actions
in bottleneck gave at most 6 in 20,000 physics steps."""
FAR_BELOW = -100.0
WALL_NAMES = ("wall_right", "wall_up", "wall_left", "wall_down")
"""The four boxes, in the order of `edl.envs.layouts.DIRECTIONS`."""
COLOUR = (0.55, 0.55, 0.6, 1.0)
TOWARDS = np.array([(right, -down) for down, right in DIRECTIONS], float)
"""(x, y) of one cell to the right, up, left and down."""


class WallMap(eqx.Module):
    """The walls of a maze: ``arms[i, j]`` says which walls leave post (i, j), to the right, up, left and down.

    ``corner`` is the position of post (0, 0), the lower left one, in units.
    """

    arms: Bool[Array, "w h 4"]
    corner: Float[Array, " 2"]


def wall_map(layout: Layout) -> WallMap:
    """The walls of a layout, from its text."""
    grid = np.pad(np.array([list(row) for row in layout.text.split("\n")]), 1, constant_values=" ")
    rows, columns = (np.arange(1, size - 1, 2) for size in grid.shape)
    near = [grid[np.ix_(rows + down, columns + right)] for down, right in DIRECTIONS]
    arms = np.stack(near, axis=-1) != " "
    row, column = np.argwhere(grid == "S")[0] - 1  # the origin, without the padding
    corner = UNITS_PER_CELL * np.array([-column, row - 2 * (len(rows) - 1)]) / 2
    # Posts are numbered from left to right and from bottom to top.
    return WallMap(jnp.asarray(arms[::-1].swapaxes(0, 1)), jnp.asarray(corner, jnp.float32))


def move_walls(model: Any, geoms: tuple[int, ...], walls: WallMap, position: Float[Array, " 2"]) -> Any:
    """An ``mjx.Model`` whose four boxes are the walls at the post nearest to ``position``."""
    last = jnp.array(walls.arms.shape[:2]) - 1
    post = jnp.clip(jnp.round((position - walls.corner) / UNITS_PER_CELL), 0, last).astype(jnp.int32)
    middles = walls.corner + UNITS_PER_CELL * (post + jnp.asarray(TOWARDS / 2, jnp.float32))
    height = jnp.where(walls.arms[post[0], post[1]], HEIGHT / 2, FAR_BELOW)
    places = jnp.concatenate([middles, height[:, None]], axis=1)
    return model.replace(geom_pos=model.geom_pos.at[jnp.array(geoms)].set(places))


def add_near_walls(spec: Any) -> None:
    """Add the four boxes to an ``MjSpec``, and limit MJX to the `MAX_CONTACTS` deepest contacts."""
    for name, direction in zip(WALL_NAMES, TOWARDS, strict=True):
        _add_box(spec, name, (0.0, 0.0, FAR_BELOW), direction, HEIGHT)
    # MJX 3.17 reads the wrong number if another one comes first. The others, such as Gym's init_qpos, have no effect.
    for numeric in list(spec.numerics):
        spec.delete(numeric)
    spec.add_numeric(name="max_contact_points", data=[MAX_CONTACTS])


def add_all_walls(spec: Any, walls: WallMap, height: float = HEIGHT) -> None:
    """Add every wall of a maze to an ``MjSpec``."""
    arms, corner = np.asarray(walls.arms), np.asarray(walls.corner, float)
    # A wall to the left or down is the wall to the right or up of another post.
    for index, (i, j, arm) in enumerate(np.argwhere(arms[..., :2]).tolist()):
        x, y = corner + UNITS_PER_CELL * (np.array([i, j]) + TOWARDS[arm] / 2)
        _add_box(spec, f"wall_{index}", (x, y, height / 2), TOWARDS[arm], height)


def _add_box(
    spec: Any, name: str, position: tuple[float, float, float], direction: Float[np.ndarray, " 2"], height: float
) -> None:
    """Add a wall of the length of a cell. Its ends overlap with those of other walls at the same post."""
    size = np.where(direction != 0, UNITS_PER_CELL / 2 + HALF_THICKNESS, HALF_THICKNESS)
    spec.worldbody.add_geom(
        name=name,
        type=load_library().mujoco.mjtGeom.mjGEOM_BOX,
        pos=position,
        size=[*size, height / 2],
        contype=0,
        conaffinity=1,
        rgba=COLOUR,
    )

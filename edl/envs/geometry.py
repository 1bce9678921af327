"""Walls, and a point that slides along them: the dynamics of a collision.

Walls are axis-aligned and have no thickness. A point that would touch one stops there, is pushed back by a random
repulsion, and continues along the wall with the rest of its motion. Every segment of its path is tested against every
wall first. If rounding would make it cross a wall, the point does not move, so a point never crosses a wall.

The paper's mazes allow three contacts per step and drop the remaining motion. Here each contact uses up the motion
along one axis, so there are at most two.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.types import Key

CONTACTS = 2
"""Maximum number of contacts per step: one per axis."""
REPULSION = 0.01
"""Maximum distance between a point and a wall after a contact."""
SKIN = 1e-4
"""A point this near to a wall is in contact, and walls are this much longer at both ends: several ulp."""


class Walls(eqx.Module):
    """Walls by the axis that they block: row 0 blocks motion in x (vertical walls), row 1 blocks motion in y.

    A wall is at ``level`` on its own axis and spans ``low`` to ``high`` on the other. Rows are padded with empty walls,
    because several mazes can then be stacked.
    """

    level: Float[Array, "2 w"]
    low: Float[Array, "2 w"]
    high: Float[Array, "2 w"]


def walls(segments: np.ndarray) -> Walls:
    """Walls from their end points, a NumPy array of shape (w, 2, 2)."""
    lower, upper = segments.min(axis=1), segments.max(axis=1)
    vertical = lower[:, 0] == upper[:, 0]
    width = int(max(vertical.sum(), (~vertical).sum()))
    level, low, high = np.zeros((2, width)), np.full((2, width), np.inf), np.full((2, width), -np.inf)
    for axis, mask in enumerate((vertical, ~vertical)):
        count = int(mask.sum())
        level[axis, :count] = lower[mask, axis]
        low[axis, :count] = lower[mask, 1 - axis] - SKIN
        high[axis, :count] = upper[mask, 1 - axis] + SKIN
    return Walls(*(jnp.asarray(array, jnp.float32) for array in (level, low, high)))


def pad(walls: Walls, width: int) -> Walls:
    """The same walls, padded to ``width`` per axis."""
    missing = ((0, 0), (0, width - walls.level.shape[-1]))
    return Walls(
        level=jnp.pad(walls.level, missing),
        low=jnp.pad(walls.low, missing, constant_values=jnp.inf),
        high=jnp.pad(walls.high, missing, constant_values=-jnp.inf),
    )


def slide(key: Key, walls: Walls, point: Float[Array, " 2"], motion: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """The position of ``point`` after it moves by ``motion`` among ``walls``."""
    return path(key, walls, point, motion)[-1]


def path(key: Key, walls: Walls, point: Float[Array, " 2"], motion: Float[Array, " 2"]) -> list[Float[Array, " 2"]]:
    """The corners of the path of `slide`, starting with ``point``. With fewer contacts, the last corner is repeated."""
    repulsions = jax.random.uniform(key, (CONTACTS,), minval=2 * SKIN, maxval=REPULSION - SKIN)
    target = point + motion
    corners = [point]
    for repulsion in repulsions:
        delta = target - point
        time = contact_times(walls, point, target)
        first = jnp.min(time)
        # Not ``time == first``: a GPU may compute a time twice, and round it differently.
        hit = (time <= time[::-1]) & (time <= 1.0)
        # The position at the time of the contact gives the level of the wall, without argmin and gather.
        landing = point + jnp.minimum(first, 1.0) * delta - jnp.where(hit, jnp.sign(delta) * repulsion, 0.0)
        safe = jnp.min(contact_times(walls, point, landing)) > 1.0
        point = jnp.where(safe, landing, point)
        target = jnp.where(hit, point, target)
        corners.append(point)
    return corners


def contact_times(walls: Walls, start: Float[Array, " 2"], end: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """The times at which the segment from ``start`` to ``end`` first meets a wall that blocks x, and one that blocks y.

    A time is a fraction of the segment in [0, 1], or infinite if there is no contact. A point on a wall counts as above
    it or to its right. A point that leaves a wall or moves along it is not in contact with it.
    """
    delta = (end - start)[:, None]
    parallel = delta == 0
    ahead = walls.level - start[:, None]
    short = (walls.level - end[:, None]) * jnp.sign(delta)
    # Exact comparisons decide whether a wall is ahead and reached. Only the place of the contact is rounded.
    reached = ~parallel & jnp.where(delta > 0, ahead > 0, ahead <= 0) & (short <= SKIN)
    time = jnp.clip(ahead * (1.0 / jnp.where(parallel, 1.0, delta)), 0.0, 1.0)
    across = start[::-1, None] + time * delta[::-1]
    met = reached & (walls.low <= across) & (across <= walls.high)
    return jnp.min(jnp.where(met, time, jnp.inf), axis=1)

"""Walls, and a point that slides along them. The only place that knows the dynamics of a collision.

Walls are axis-aligned and have no thickness. A point that would touch one stops there, is pushed back by a random
repulsion and goes on along the wall with what is left of its motion. Every piece of the way is tested against every
wall before it is taken, so that a point can't cross a wall, whatever rounding does: it stays put instead.

The paper's worlds allow three contacts a step and drop the motion that is left. Here each contact spends the motion
along one axis, so the second one spends the last of it and there is never a third.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.types import Key

CONTACTS = 2
"""How many contacts a step can have: one for each axis."""
REPULSION = 0.01
"""A contact leaves a point nearer than this to the wall."""
SKIN = 1e-4
"""Coming this near is a contact, and walls are this much longer than drawn: several ulp of any coordinate."""


class Walls(eqx.Module):
    """Walls by the axis they block: row 0 those that block motion in x (vertical ones), row 1 those that block y.

    A wall lies at ``level`` on its own axis and spans ``low`` to ``high`` on the other. Rows are padded with walls that
    span nothing, so that several mazes can be stacked.
    """

    level: Float[Array, "2 w"]
    low: Float[Array, "2 w"]
    high: Float[Array, "2 w"]


def walls(segments: np.ndarray) -> Walls:
    """Walls from their ends, an array of shape (w, 2, 2) on the host."""
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
    """The same walls, with room for ``width`` of them per axis."""
    missing = ((0, 0), (0, width - walls.level.shape[-1]))
    return Walls(
        level=jnp.pad(walls.level, missing),
        low=jnp.pad(walls.low, missing, constant_values=jnp.inf),
        high=jnp.pad(walls.high, missing, constant_values=-jnp.inf),
    )


def slide(key: Key, walls: Walls, point: Float[Array, " 2"], motion: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """Where ``point`` ends up when it moves by ``motion`` among ``walls``."""
    return path(key, walls, point, motion)[-1]


def path(key: Key, walls: Walls, point: Float[Array, " 2"], motion: Float[Array, " 2"]) -> list[Float[Array, " 2"]]:
    """The corners of the way that `slide` takes, from ``point`` on; the last one is repeated if contacts are fewer."""
    repulsions = jax.random.uniform(key, (CONTACTS,), minval=2 * SKIN, maxval=REPULSION - SKIN)
    target = point + motion
    corners = [point]
    for repulsion in repulsions:
        way = target - point
        time = contact_times(walls, point, target)
        first = jnp.min(time)
        hit = (time == first) & (first <= 1.0)
        # The level of the wall is where the way is at the time of the contact: no argmin, no gather.
        landing = point + jnp.minimum(first, 1.0) * way - jnp.where(hit, jnp.sign(way) * repulsion, 0.0)
        safe = jnp.min(contact_times(walls, point, landing)) > 1.0
        point = jnp.where(safe, landing, point)
        target = jnp.where(hit, point, target)
        corners.append(point)
    return corners


def contact_times(walls: Walls, start: Float[Array, " 2"], end: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """When the straight way from ``start`` to ``end`` first meets a wall that blocks x, and one that blocks y.

    Times are shares of the way in [0, 1]; infinite if there is no contact. A point on a wall counts as being above it
    or to its right. Nothing is in contact with a wall that it leaves or moves along.
    """
    way = (end - start)[:, None]
    parallel = way == 0
    ahead = walls.level - start[:, None]
    short = (walls.level - end[:, None]) * jnp.sign(way)
    # Whether a wall is ahead and reached is decided by exact comparisons; only where it is met is subject to rounding.
    reached = ~parallel & jnp.where(way > 0, ahead > 0, ahead <= 0) & (short <= SKIN)
    time = jnp.clip(ahead * (1.0 / jnp.where(parallel, 1.0, way)), 0.0, 1.0)
    across = start[::-1, None] + time * way[::-1]
    met = reached & (walls.low <= across) & (across <= walls.high)
    return jnp.min(jnp.where(met, time, jnp.inf), axis=1)

"""Skills that are points of a space rather than rows of a table: how they are drawn, and which of them are shown.

A policy for continuous skills can be asked for any of them. To evaluate and to draw it, it is asked for a fixed number,
the same for every seed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.rollout import Skill
from edl.types import Key

SHOWN = 0
"""Seed of the skills that are shown."""


def direction_skill(key: Key, size: int) -> Skill:
    """z ~ uniform over the unit sphere in R^size."""
    return Skill(code=_unit(jax.random.normal(key, (size,))), index=jnp.int32(-1))


def directions(count: int, size: int) -> Float[Array, "k z"]:
    """Unit vectors to show: evenly spaced in the plane, a fixed draw elsewhere."""
    if size == 2:
        angles = 2 * jnp.pi * jnp.arange(count) / count
        return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    return jax.vmap(_unit)(jax.random.normal(jax.random.key(SHOWN), (count, size)))


def box_skill(key: Key, size: int) -> Skill:
    """z ~ uniform over [-1, 1]^size."""
    return Skill(code=jax.random.uniform(key, (size,), minval=-1.0, maxval=1.0), index=jnp.int32(-1))


def box_draw(count: int, size: int) -> Float[Array, "k z"]:
    """Points of [-1, 1]^size to show: a fixed draw."""
    keys = jax.random.split(jax.random.key(SHOWN), count)
    return jax.vmap(lambda key: box_skill(key, size).code)(keys)


def _unit(vector: Float[Array, " z"]) -> Float[Array, " z"]:
    return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-6)

"""Fixed priors p(z): one-hot skills, unit vectors, and points of a box.

A policy over continuous skills accepts any code. For evaluation and figures we use a fixed list of example codes, which
is the same for every seed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.rollout import Skill
from edl.types import Key

EXAMPLE_SEED = 0
"""Seed of the example codes."""


def sample_one_hot(key: Key, num_skills: int) -> Skill:
    """z ~ uniform over the skills. The code is one-hot."""
    index = jax.random.randint(key, (), 0, num_skills)
    return Skill(code=jax.nn.one_hot(index, num_skills), index=index)


def sample_direction(key: Key, size: int) -> Skill:
    """z ~ uniform over the unit sphere in R^size."""
    return Skill(code=unit_vector(jax.random.normal(key, (size,))), index=jnp.int32(-1))


def example_directions(count: int, size: int) -> Float[Array, "k z"]:
    """Unit vectors: evenly spaced if ``size`` is 2, a fixed random sample otherwise."""
    if size == 2:
        angles = 2 * jnp.pi * jnp.arange(count) / count
        return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    return jax.vmap(unit_vector)(jax.random.normal(jax.random.key(EXAMPLE_SEED), (count, size)))


def sample_in_box(key: Key, size: int) -> Skill:
    """z ~ uniform over [-1, 1]^size."""
    return Skill(code=jax.random.uniform(key, (size,), minval=-1.0, maxval=1.0), index=jnp.int32(-1))


def example_box_points(count: int, size: int) -> Float[Array, "k z"]:
    """Points of [-1, 1]^size: a fixed random sample."""
    keys = jax.random.split(jax.random.key(EXAMPLE_SEED), count)
    return jax.vmap(lambda key: sample_in_box(key, size).code)(keys)


def unit_vector(vector: Float[Array, " z"]) -> Float[Array, " z"]:
    """The vector scaled to unit length. A vector shorter than 1e-6 stays as it is, so gradients are finite at zero."""
    squares = jnp.sum(vector**2)
    far = squares > 1e-12
    return vector * jnp.where(far, jax.lax.rsqrt(jnp.where(far, squares, 1.0)), 1.0)

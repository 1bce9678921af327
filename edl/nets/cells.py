"""Cells of the feature space as rows of a hash table, in any number of dimensions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.types import Scalar

TABLE_SIZE = 2**18
"""Rows of the hash table in which explorers count visits."""
PRIMES = (73856093, 19349663, 83492791, 49979687, 86028121, 67867967, 15485863, 32452843)
MIXER = 739982445


def cell_of(state: Float[Array, " s"], side: float | Scalar, rows: int = TABLE_SIZE) -> Int[Array, ""]:
    """The row of a state's grid cell in a hash table, which works in any number of dimensions."""
    return hash_row(jnp.floor(state / side).astype(jnp.int32), rows)


def hash_row(corner: Int[Array, " d"], rows: int = TABLE_SIZE) -> Int[Array, ""]:
    """The row of a vector of integers in a hash table."""
    primes = jnp.asarray(PRIMES, jnp.int32)[jnp.arange(corner.shape[0]) % len(PRIMES)]
    mixed = (corner + jnp.arange(corner.shape[0])) * primes
    # Without the shift, -x is nearly the complement of x, so that (-x, -y) and (x, y) collide.
    mixed = (mixed ^ jax.lax.shift_right_logical(mixed, 15)) * MIXER
    mixed = mixed ^ jax.lax.shift_right_logical(mixed, 12)
    bits = jnp.bitwise_xor.reduce(mixed).astype(jnp.uint32)
    return (bits % rows).astype(jnp.int32)

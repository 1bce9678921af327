"""Random orders, for a fraction of what ``jax.random.permutation`` costs."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from edl.types import Key

RANDOM_BITS = 12
"""Least number of random bits that a row is sorted by."""


def shuffles(key: Key, count: int, size: int) -> UInt32[Array, "c n"]:
    """``count`` random orders of ``size`` rows.

    A row's number is put below random bits in one word, and words are sorted: sorting pairs, twice, as
    ``jax.random.permutation`` does against ties, takes eight times as long. Rows with the same bits stay in order,
    which happens to a pair of them with probability 2^-(32 - log2 size): no matter to a minibatch.
    """
    width = max(size - 1, 1).bit_length()
    if 32 - width < RANDOM_BITS:
        keys = jax.random.split(key, count)
        return jax.vmap(lambda key: jax.random.permutation(key, size).astype(jnp.uint32))(keys)
    bits = jax.random.bits(key, (count, size), jnp.uint32) >> width << width
    return jax.lax.sort(bits | jnp.arange(size, dtype=jnp.uint32), is_stable=False) & jnp.uint32((1 << width) - 1)

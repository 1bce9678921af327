"""Counts the rows in which two columns are both 1. Most columns may be empty."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PARTS = 8
"""The columns are divided into this many parts. The product includes only as many parts as it needs."""


@jax.custom_batching.custom_vmap
def cooccurrence(columns: Float[Array, "n m"], count: Int[Array, ""]) -> Float[Array, "m m"]:
    """columns^T columns, where all columns after the first ``count`` are zero."""
    return _product(columns, count)


@cooccurrence.def_vmap
def _cooccurrence_of_batch(axis_size: int, batched: list[bool], columns: Array, count: Array) -> tuple[Array, bool]:
    """Multiply as many columns as the fullest item needs: a plain vmap would compute every branch of the switch."""
    columns = columns if batched[0] else jnp.broadcast_to(columns, (axis_size, *columns.shape))
    return _product(columns, jnp.max(count)), True


def _product(columns: Float[Array, "*b n m"], count: Int[Array, ""]) -> Float[Array, "*b m m"]:
    size = columns.shape[-1]
    part_size = -(-size // PARTS)

    def product_of_first(used: int) -> Float[Array, "*b m m"]:
        first = columns[..., :used]
        padding = [(0, 0)] * (columns.ndim - 2) + [(0, size - first.shape[-1])] * 2
        return jnp.pad(jnp.swapaxes(first, -1, -2) @ first, padding)

    branches = [lambda used=part * part_size: product_of_first(used) for part in range(1, PARTS + 1)]
    return jax.lax.switch((count - 1) // part_size, branches)

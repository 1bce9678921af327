"""How many rows two columns have in common, where most columns may be empty."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PARTS = 8
"""The product is taken of one eighth of the columns, or of two, and so on."""


@jax.custom_batching.custom_vmap
def in_common(passes: Float[Array, "n m"], count: Int[Array, ""]) -> Float[Array, "m m"]:
    """passes^T passes, of as few columns as will do: all but the first ``count`` are zero."""
    return _product(passes, count)


@in_common.def_vmap
def _of_several(axis_size: int, batched: list[bool], passes: Array, count: Array) -> tuple[Array, bool]:
    """As many columns as the fullest needs: under a plain vmap, each of the products would be computed."""
    passes = passes if batched[0] else jnp.broadcast_to(passes, (axis_size, *passes.shape))
    return _product(passes, jnp.max(count)), True


def _product(passes: Float[Array, "*b n m"], count: Int[Array, ""]) -> Float[Array, "*b m m"]:
    size = passes.shape[-1]
    step = -(-size // PARTS)

    def of_first(columns: int) -> Float[Array, "*b m m"]:
        some = passes[..., :columns]
        room = [(0, 0)] * (passes.ndim - 2) + [(0, size - some.shape[-1])] * 2
        return jnp.pad(jnp.swapaxes(some, -1, -2) @ some, room)

    parts = [lambda columns=part * step: of_first(columns) for part in range(1, PARTS + 1)]
    return jax.lax.switch((count - 1) // step, parts)

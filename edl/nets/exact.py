"""Matrix products in full float32.

On a GPU the default rounds inputs to 10 bits, which is fine for a network and ruinous for geometry, where squared
distances are small differences of large products.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def exact(x: Float[Array, "*a"], y: Float[Array, "*b"]) -> Float[Array, "*c"]:
    """x @ y."""
    return jnp.matmul(x, y, precision="highest")

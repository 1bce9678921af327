"""Vector quantisation: replace a vector by the nearest row of a codebook (van den Oord et al., 2017).

`nearest`, `straight_through` and `quantise` take one vector z_e; use vmap for a batch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.nets.linalg import exact_matmul, squared_distances
from edl.types import Scalar


class Quantised(NamedTuple):
    """The nearest code of one z_e: its index, the code, and two terms of the loss.

    ``code`` has the value of the codebook's row and the gradient of z_e (straight through). ``codebook`` moves the row
    towards z_e, ``commitment`` moves z_e towards the row. Both terms have the same value.
    """

    index: Int[Array, ""]
    code: Float[Array, " z"]
    codebook: Scalar
    commitment: Scalar


def nearest(z: Float[Array, " z"], codes: Float[Array, "k z"]) -> Int[Array, ""]:
    """argmin_k ||z - e_k||: the one-hot posterior q(z|s) of the paper."""
    return jnp.argmin(squared_distances(z, codes))


def straight_through(z: Float[Array, " z"], code: Float[Array, " z"]) -> Float[Array, " z"]:
    """The value of ``code`` with the gradient of ``z``."""
    return code + (z - jax.lax.stop_gradient(z))  # the bracket is exactly zero


def quantise(z: Float[Array, " z"], codes: Float[Array, "k z"]) -> Quantised:
    """z_q = e_k with k = argmin_j ||z_e - e_j||, and the terms ||sg[z_e] - e_k||^2 and ||z_e - sg[e_k]||^2."""
    index = nearest(z, codes)
    row = codes[index]
    return Quantised(
        index=index,
        code=straight_through(z, jax.lax.stop_gradient(row)),
        codebook=jnp.sum((jax.lax.stop_gradient(z) - row) ** 2),
        commitment=jnp.sum((z - jax.lax.stop_gradient(row)) ** 2),
    )


def code_usage(index: Int[Array, " n"], num_codes: int) -> Float[Array, " k"]:
    """The share of the vectors that is assigned to each code."""
    return jnp.mean(jax.nn.one_hot(index, num_codes), axis=0)


def perplexity(usage: Float[Array, " k"]) -> Scalar:
    """exp H(usage) for shares that sum to 1: the effective number of codes in use, between 1 and K."""
    return jnp.exp(-jnp.sum(jax.scipy.special.xlogy(usage, usage)))


def lloyd(x: Float[Array, "n s"], centroids: Float[Array, "k s"], steps: int) -> Float[Array, "k s"]:
    """``steps`` iterations of Lloyd's algorithm: each centroid moves to the mean of its nearest samples, if any."""

    def move(_: Int[Array, ""], centroids: Float[Array, "k s"]) -> Float[Array, "k s"]:
        member = jax.nn.one_hot(jax.vmap(nearest, in_axes=(0, None))(x, centroids), centroids.shape[0])
        count = jnp.sum(member, axis=0)[:, None]
        return jnp.where(count > 0, exact_matmul(member.T, x) / jnp.maximum(count, 1.0), centroids)

    return jax.lax.fori_loop(0, steps, move, centroids)

"""A variational autoencoder with a Gaussian code (Kingma and Welling, 2014), or beta-VAE (Higgins et al., 2017).

    L(x) = 1/2 ||x - D(z)||^2 + beta KL(q(z|x) || N(0, I)),      z ~ q(z|x) = N(mean, deviation^2).

The encoder computes the mean and the log-variance of q(z|x); the decoder computes D(z), the mean of q(x|z). The two
users, `edl.explore.density_vae` and `edl.discover.gaussian_vae`, weight and average the two terms themselves.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.nets.mlp import MLP, Initialisation, mlp
from edl.types import Key, Scalar


class VAETerms(NamedTuple):
    """``error`` is ||x - D(z)||^2 and ``divergence`` is KL(q(z|x) || N(0, I)) of one input."""

    error: Scalar
    divergence: Scalar


class VAE(eqx.Module):
    """The encoder q(z|x) and the decoder D(z)."""

    encoder: MLP
    decoder: MLP

    def terms(self, x: Float[Array, " s"], noise: Float[Array, "*z"]) -> VAETerms:
        """Both terms of L(x) at z = mean + deviation * noise. Pass ``noise = 0`` for the code at its mean."""
        mean, log_variance = jnp.split(self.encoder(x), 2)
        decoded = self.decoder(mean + jnp.exp(0.5 * log_variance) * noise)
        error = jnp.sum((x - decoded) ** 2)
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance)
        return VAETerms(error, divergence)


def new_vae(
    encoder_key: Key,
    decoder_key: Key,
    size: int,
    hidden: tuple[int, ...],
    code_size: int,
    initialisation: Initialisation = "xavier",
) -> VAE:
    """An untrained VAE for inputs of ``size`` dimensions; the decoder's hidden layers mirror the encoder's."""
    return VAE(
        encoder=mlp(encoder_key, (size, *hidden, 2 * code_size), initialisation=initialisation),
        decoder=mlp(decoder_key, (code_size, *reversed(hidden), size), initialisation=initialisation),
    )

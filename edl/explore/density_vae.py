"""The density model of SMM: a beta-VAE (Kingma and Welling, 2014; Higgins et al., 2017).

    -log q(s) ~ 1/2 ||s - D(z)||^2 + beta KL(q(z|s) || N(0, I)),        z the mean of q(z|s),

up to a constant: the evidence bound with a decoder of unit variance, the code at its mean, and the divergence weighted
as in training. A state that was visited often has a small reconstruction error and a code near the prior.

Unlike the densities of `edl.nets.density`, this one is not refitted but trained by gradient steps (`update_vae`).
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.config import config
from edl.nets.density import Density
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.nets.vae import VAE, new_vae
from edl.types import Key, Metrics, Scalar


@config
class VAEConfig:
    """The paper's table. Its grid for ``beta`` is 0.01, 0.1, 1."""

    code_size: int = 64
    """Dimensions of the code."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the encoder's hidden layers; the decoder's are reversed."""
    beta: float = 0.1
    """Weight of the divergence from the prior."""
    learning_rate: float = 1e-2
    """Learning rate of the VAE."""


class VAEDensity(Density):
    """The density of the module docstring. ``beta`` is a leaf, and `bound` stops its gradient."""

    vae: VAE
    beta: Scalar

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """log q(s) of the module docstring."""
        return -self.bound(state, jnp.float32(0.0))[0]

    def bound(self, state: Float[Array, " s"], noise: Float[Array, "*z"]) -> tuple[Scalar, Scalar]:
        """1/2 ||s - D(z)||^2 + beta KL at z = mean + deviation * noise, and ||s - D(z)||^2 alone."""
        error, divergence = self.vae.terms(state, noise)
        return 0.5 * error + jax.lax.stop_gradient(self.beta) * divergence, error


def init_vae(key: Key, size: int, config: VAEConfig) -> Trained:
    """An untrained density of states with ``size`` dimensions."""
    encoder_key, decoder_key = jax.random.split(key)
    vae = new_vae(encoder_key, decoder_key, size, config.hidden, config.code_size)
    return new_trained(_optimiser(config), VAEDensity(vae, beta=jnp.asarray(config.beta, jnp.float32)))


def update_vae(key: Key, density: Trained, states: Float[Array, "b s"], config: VAEConfig) -> tuple[Trained, Metrics]:
    """One gradient step on the mean bound over a batch of states, with codes drawn from q(z|s)."""
    noise = jax.random.normal(key, (states.shape[0], config.code_size))
    return gradient_step(_optimiser(config), density, loss, states, noise)


def loss(model: VAEDensity, states: Float[Array, "b s"], noise: Float[Array, "b z"]) -> tuple[Scalar, Metrics]:
    """The mean bound over a batch."""
    bounds, errors = jax.vmap(model.bound)(states, noise)
    value = jnp.mean(bounds)
    return value, {"density_loss": value, "reconstruction": jnp.mean(errors)}


def _optimiser(config: VAEConfig) -> optax.GradientTransformation:
    return optax.flatten(optax.adam(config.learning_rate))  # flat: one loop to compile instead of one per layer

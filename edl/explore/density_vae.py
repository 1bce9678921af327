"""The density of states as a beta-VAE sees it (Kingma and Welling, 2014; Higgins et al., 2017), as SMM uses it.

    -log q(s) ~ 1/2 ||s - D(z)||^2 + beta KL(q(z|s) || N(0, I)),        z the mean of q(z|s),

up to a constant: the evidence bound with the decoder's unit variance, the code at its mean, and the divergence weighted
as in training. What was seen often is reconstructed well from a code near the prior; what was not is neither.

Unlike the densities of `edl.nets.density` this one is not fitted anew but follows the states, a gradient step at a
time, with `init_vae` and `update_vae`.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.config import config
from edl.nets.density import Density
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.types import Key, Metrics, Scalar


@config
class VAEConfig:
    """The paper's table; its grid for ``beta`` is 0.01, 0.1, 1."""

    code_size: int = 64
    hidden: tuple[int, ...] = (128, 128)
    beta: float = 0.1
    learning_rate: float = 1e-2


class VAE(Density):
    """q(z|s), as mean and log-variance, and the mean of q(s|z). Nothing descends on ``beta``."""

    encoder: MLP
    decoder: MLP
    beta: Scalar

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """log q(s) of the module docstring."""
        return -self.bound(state, jnp.float32(0.0))[0]

    def bound(self, state: Float[Array, " s"], noise: Float[Array, "*z"]) -> tuple[Scalar, Scalar]:
        """1/2 ||s - D(z)||^2 + beta KL at z = mean + deviation * noise, and ||s - D(z)||^2 alone."""
        mean, log_variance = jnp.split(self.encoder(state), 2)
        decoded = self.decoder(mean + jnp.exp(0.5 * log_variance) * noise)
        error = jnp.sum((state - decoded) ** 2)
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance)
        return 0.5 * error + jax.lax.stop_gradient(self.beta) * divergence, error


def init_vae(key: Key, size: int, config: VAEConfig) -> Trained:
    """A density of states of ``size`` dimensions that has seen nothing."""
    encoder_key, decoder_key = jax.random.split(key)
    model = VAE(
        encoder=mlp(encoder_key, (size, *config.hidden, 2 * config.code_size)),
        decoder=mlp(decoder_key, (config.code_size, *reversed(config.hidden), size)),
        beta=jnp.asarray(config.beta, jnp.float32),
    )
    return start(_optimiser(config), model)


def update_vae(key: Key, density: Trained, states: Float[Array, "b s"], config: VAEConfig) -> tuple[Trained, Metrics]:
    """One gradient step on the mean bound over a batch of states, with codes drawn from q(z|s)."""
    noise = jax.random.normal(key, (states.shape[0], config.code_size))
    return descend(_optimiser(config), density, loss, states, noise)


def loss(model: VAE, states: Float[Array, "b s"], noise: Float[Array, "b z"]) -> tuple[Scalar, Metrics]:
    """The mean bound over a batch."""
    bounds, errors = jax.vmap(model.bound)(states, noise)
    value = jnp.mean(bounds)
    return value, {"density_loss": value, "reconstruction": jnp.mean(errors)}


def _optimiser(config: VAEConfig) -> optax.GradientTransformation:
    return optax.flatten(optax.adam(config.learning_rate))  # flat: one loop to compile instead of one per layer

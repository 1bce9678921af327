"""The density model of SMM: a beta-VAE (Kingma and Welling, 2014; Higgins et al., 2017).

    -log q(x) ~ 1/2 ||x - D(c)||^2 + beta KL(q(c|x) || N(0, I)),        c the mean of q(c|x),

up to a constant: the evidence bound with a decoder of unit variance, the code at its mean, and the divergence weighted
as in training. An input that was seen often has a small reconstruction error and a code near the prior.

``squared_error`` is the version of EDL's authors: -log q(x) = ||x - D(c)||^2 without the divergence, and training
minimises the squared error, averaged instead of summed over dimensions, plus beta KL. Departs from it: c is the mean of
q(c|x), because rewards have no random numbers here; they draw it.

Unlike the densities of `edl.nets.density`, this one is not refitted but trained by gradient steps (`update_vae`).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.config import config
from edl.nets.density import Density
from edl.nets.mlp import Initialisation
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.nets.vae import VAE, new_vae
from edl.types import Key, Metrics, Scalar


@config
class VAEConfig:
    """The paper's table. Its grid for ``beta`` is 0.01, 0.1, 1; the authors' code has 0.5."""

    code_size: int = 64
    """Dimensions of the code."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the encoder's hidden layers; the decoder's are reversed."""
    beta: float = 0.1
    """Weight of the divergence from the prior."""
    learning_rate: float = 1e-2
    """Learning rate of the VAE."""
    adam_epsilon: float = 1e-8
    """Epsilon of Adam for the VAE."""
    squared_error: bool = False
    """Use the authors' loss and density, which is the squared error without the divergence."""

    @classmethod
    def paper(cls) -> "VAEConfig":
        """The VAE of the authors' code."""
        return cls(hidden=(128, 128, 128), beta=0.5, adam_epsilon=1e-3, squared_error=True)


class VAEDensity(Density):
    """The density of the module docstring. ``beta`` is a leaf, and its gradient is stopped."""

    vae: VAE
    beta: Scalar
    squared_error: bool = eqx.field(static=True, default=False)

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """log q(x) of the module docstring."""
        error, divergence = self.vae.terms(state, jnp.float32(0.0))
        return -error if self.squared_error else -(0.5 * error + self.beta * divergence)

    def loss(self, state: Float[Array, " s"], noise: Float[Array, "*z"]) -> tuple[Scalar, Scalar]:
        """The loss of the module docstring at c = mean + deviation * noise, and ||x - D(c)||^2 alone."""
        error, divergence = self.vae.terms(state, noise)
        weight = 1 / state.shape[0] if self.squared_error else 0.5
        return weight * error + jax.lax.stop_gradient(self.beta) * divergence, error


def init_vae(key: Key, size: int, config: VAEConfig, initialisation: Initialisation = "xavier") -> Trained:
    """An untrained density of inputs with ``size`` dimensions."""
    encoder_key, decoder_key = jax.random.split(key)
    vae = new_vae(encoder_key, decoder_key, size, config.hidden, config.code_size, initialisation)
    beta = jnp.asarray(config.beta, jnp.float32)
    return new_trained(_optimiser(config), VAEDensity(vae, beta, config.squared_error))


def update_vae(key: Key, density: Trained, states: Float[Array, "b s"], config: VAEConfig) -> tuple[Trained, Metrics]:
    """One gradient step on the mean loss over a batch of inputs, with codes drawn from q(c|x)."""
    noise = jax.random.normal(key, (states.shape[0], config.code_size))
    return gradient_step(_optimiser(config), density, loss, states, noise)


def loss(model: VAEDensity, states: Float[Array, "b s"], noise: Float[Array, "b z"]) -> tuple[Scalar, Metrics]:
    """The mean loss over a batch."""
    losses, errors = jax.vmap(model.loss)(states, noise)
    value = jnp.mean(losses)
    return value, {"density_loss": value, "reconstruction": jnp.mean(errors)}


def _optimiser(config: VAEConfig) -> optax.GradientTransformation:
    # flat: one loop to compile instead of one per layer
    return optax.flatten(optax.adam(config.learning_rate, eps=config.adam_epsilon))

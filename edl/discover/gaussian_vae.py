"""Continuous skills: a VAE with the prior p(z) = N(0, I) (Kingma and Welling, 2014) instead of a codebook.

The paper's section on skill discovery allows any VAE whose prior is the desired p(z); its experiments use discrete
priors. Here the encoder computes the mean and log-variance of q(z|s), and the decoder D the mean of q(s|z). The loss is

    L = 1/2 ||x - D(z)||^2 + beta KL(q(z|x) || N(0, I)),      z ~ q(z|x),

on normalised states: the evidence bound for a decoder with variance beta. With a small beta, D(z) follows the shape of
the maze; a large beta keeps the codes of states close to the prior from which skills are drawn.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillModel, States
from edl.config import config
from edl.discover.kmeans import kmeans_centroids
from edl.discover.samples import check_enough, subsample
from edl.discover.skill_model import build_skill_model
from edl.nets.normalise import Normaliser, fit_normaliser
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.nets.vae import VAE, new_vae
from edl.program import Program
from edl.types import Key, Metrics, Scalar

PRIOR_DRAWS = 4096
"""Number of draws from the prior that the codes represent."""


@config
class GaussianVAEConfig:
    """Settings of the VAE, and the number of codes that represent its prior in figures and evaluation."""

    num_skills: int = 10
    """Number of codes to show and evaluate, spread over the prior. Training draws codes from the whole prior."""
    num_samples: int = 4096
    """Number of explored states to train on."""
    code_size: int = 2
    """Dimensions of a code."""
    hidden_size: int = 128
    """Size of each hidden layer."""
    hidden_layers: int = 2
    """Number of hidden layers of the encoder and of the decoder."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    batch_size: int = 256
    """States per gradient step."""
    gradient_steps: int = 3000
    """Number of gradient steps."""
    steps_per_iteration: int = 100
    """Gradient steps per iteration. Metrics are averaged over an iteration."""
    beta: float = 0.03
    """Weight of the divergence from the prior."""
    snap_goals: bool = True
    """Move the goal of each code to the nearest explored state."""

    @classmethod
    def paper(cls) -> "GaussianVAEConfig":
        """The networks and the optimiser of the paper's table; continuous skills themselves are not in the paper."""
        return cls(learning_rate=2e-4, gradient_steps=50_000, snap_goals=False)


class GaussianVAEState(NamedTuple):
    """The samples ``x`` in normalised space, the codes that represent the prior, and the model."""

    x: Float[Array, "n s"]
    normaliser: Normaliser
    codes: Float[Array, "k z"]
    trained: Trained


def gaussian_vae(states: States, config: GaussianVAEConfig) -> Program[GaussianVAEState, SkillModel]:
    """Learn q(z|s) and q(s|z) for p(z) = N(0, I) from samples of p(s)."""
    check_enough(config, states)
    optimiser = optax.flatten(optax.adam(config.learning_rate))  # flat: one loop to compile instead of one per layer

    def init(key: Key) -> GaussianVAEState:
        sample_key, code_key, encoder_key, decoder_key = jax.random.split(key, 4)
        samples = subsample(sample_key, states, config.num_samples)
        normaliser = fit_normaliser(samples)
        hidden, state_size = (config.hidden_size,) * config.hidden_layers, samples.shape[-1]
        model = new_vae(encoder_key, decoder_key, state_size, hidden, config.code_size)
        codes = representative_codes(code_key, config.num_skills, config.code_size)
        return GaussianVAEState(jax.vmap(normaliser)(samples), normaliser, codes, new_trained(optimiser, model))

    def step(state: GaussianVAEState, key: Key) -> tuple[GaussianVAEState, Metrics]:
        row_key, noise_key = jax.random.split(key)
        size = (config.steps_per_iteration, config.batch_size)
        rows = jax.random.randint(row_key, size, 0, state.x.shape[0])
        noise = jax.random.normal(noise_key, (*size, config.code_size))

        def minibatch_step(trained: Trained, batch: tuple[Array, Array]) -> tuple[Trained, Metrics]:
            rows, noise = batch
            return gradient_step(optimiser, trained, loss, state.x[rows], noise, config.beta)

        trained, metrics = jax.lax.scan(minibatch_step, state.trained, (rows, noise))
        return state._replace(trained=trained), jax.tree.map(jnp.mean, metrics)

    def finish(state: GaussianVAEState) -> SkillModel:
        networks = (state.trained.params.encoder, state.trained.params.decoder)
        samples = jax.vmap(state.normaliser.inverse)(state.x)
        snap_to = states.samples if config.snap_goals else None
        return build_skill_model(state.codes, networks, state.normaliser, samples, snap_to=snap_to, continuous=True)

    return Program(init, step, finish, iterations=-(-config.gradient_steps // config.steps_per_iteration))


def loss(
    model: VAE, x: Float[Array, "b s"], noise: Float[Array, "b z"], beta: Scalar | float
) -> tuple[Scalar, Metrics]:
    """L of the module docstring over a batch, with z = mean + deviation * noise."""
    errors, divergences = jax.vmap(model.terms)(x, noise)
    reconstruction, divergence = jnp.mean(errors), jnp.mean(divergences)
    value = 0.5 * reconstruction + beta * divergence
    return value, {"loss": value, "reconstruction": reconstruction, "divergence": divergence}


def representative_codes(key: Key, count: int, size: int) -> Float[Array, "k z"]:
    """Codes that represent N(0, I) with a small quantisation error: the k-means centroids of draws from it."""
    draw_key, centroid_key = jax.random.split(key)
    draws = jax.random.normal(draw_key, (max(PRIOR_DRAWS, count), size))
    return kmeans_centroids(centroid_key, draws, count, restarts=4, steps=50)

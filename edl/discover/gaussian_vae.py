"""Continuous skills: a VAE with the prior p(z) = N(0, I) (Kingma and Welling, 2014) in place of the codebook.

The paper's section on skill discovery asks for any VAE whose prior is the p(z) one wants; its experiments take discrete
ones. Here the encoder gives the mean and log-variance of q(z|s), the decoder D the mean of q(s|z), and it descends

    L = 1/2 ||x - D(z)||^2 + beta KL(q(z|x) || N(0, I)),      z ~ q(z|x),

on normalised states: the evidence bound for a decoder with variance beta. A small beta lets D(z) follow the shape of
the maze, a large one keeps the codes of states close to the prior from which skills are drawn.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillModel, States
from edl.config import config
from edl.discover.goals import skill_model
from edl.discover.kmeans import centroids_of
from edl.discover.samples import subsample
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, moments
from edl.program import Program
from edl.types import Key, Metrics, Scalar

PRIOR_DRAWS = 4096


@config
class GaussianVAEConfig:
    """How the VAE is trained, and how many of its skills are written down to be shown and evaluated."""

    num_skills: int = 10
    """Rows of ``codes``: points spread over the prior. Training draws from all of it."""
    num_samples: int = 4096
    """States to learn from, drawn from those explored."""
    code_size: int = 2
    hidden_size: int = 128
    hidden_layers: int = 2
    learning_rate: float = 1e-3
    batch_size: int = 256
    gradient_steps: int = 3000
    steps_per_iteration: int = 100
    """Gradient steps between two looks at the metrics."""
    beta: float = 0.03
    """The weight of the divergence from the prior."""
    snap_goals: bool = True
    """Move the goal of each of the ``codes`` to the nearest explored state."""

    @classmethod
    def paper(cls) -> "GaussianVAEConfig":
        """The networks and the optimiser of the paper's table; continuous skills themselves are not in the paper."""
        return cls(learning_rate=2e-4, gradient_steps=50_000, snap_goals=False)


class VAE(eqx.Module):
    """q(z|s) and q(s|z)."""

    encoder: MLP
    decoder: MLP


class Discovery(NamedTuple):
    """The samples ``x`` in normalised space, the skills to write down, and the model."""

    x: Float[Array, "n s"]
    normaliser: Normaliser
    codes: Float[Array, "k z"]
    trained: Trained


def gaussian_vae(states: States, config: GaussianVAEConfig) -> Program[Discovery, SkillModel]:
    """Learn q(z|s) and q(s|z) for p(z) = N(0, I) from samples of p(s)."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))  # flat: one loop to compile instead of one per layer

    def init(key: Key) -> Discovery:
        sample_key, code_key, encoder_key, decoder_key = jax.random.split(key, 4)
        samples = subsample(sample_key, states, config.num_samples)
        normaliser = moments(samples)
        hidden, state_size = [config.hidden_size] * config.hidden_layers, samples.shape[-1]
        model = VAE(
            encoder=mlp(encoder_key, [state_size, *hidden, 2 * config.code_size]),
            decoder=mlp(decoder_key, [config.code_size, *hidden, state_size]),
        )
        codes = spread(code_key, config.num_skills, config.code_size)
        return Discovery(jax.vmap(normaliser)(samples), normaliser, codes, start(optimiser, model))

    def step(state: Discovery, key: Key) -> tuple[Discovery, Metrics]:
        row_key, noise_key = jax.random.split(key)
        size = (config.steps_per_iteration, config.batch_size)
        rows = jax.random.randint(row_key, size, 0, state.x.shape[0])
        noise = jax.random.normal(noise_key, (*size, config.code_size))

        def gradient_step(trained: Trained, batch: tuple[Array, Array]) -> tuple[Trained, Metrics]:
            rows, noise = batch
            return descend(optimiser, trained, loss, state.x[rows], noise, config.beta)

        trained, metrics = jax.lax.scan(gradient_step, state.trained, (rows, noise))
        return state._replace(trained=trained), jax.tree.map(jnp.mean, metrics)

    def finish(state: Discovery) -> SkillModel:
        coders = (state.trained.params.encoder, state.trained.params.decoder)
        samples = jax.vmap(state.normaliser.inverse)(state.x)
        snap_to = states.samples if config.snap_goals else None
        return skill_model(state.codes, coders, state.normaliser, samples, snap_to=snap_to, continuous=True)

    return Program(init, step, finish, iterations=-(-config.gradient_steps // config.steps_per_iteration))


def loss(
    model: VAE, x: Float[Array, "b s"], noise: Float[Array, "b z"], beta: Scalar | float
) -> tuple[Scalar, Metrics]:
    """L of the module's docstring over a batch, with z = mean + deviation * noise."""
    mean, log_variance = jnp.split(jax.vmap(model.encoder)(x), 2, axis=-1)
    decoded = jax.vmap(model.decoder)(mean + jnp.exp(0.5 * log_variance) * noise)
    reconstruction = jnp.mean(jnp.sum((x - decoded) ** 2, axis=-1))
    divergence = jnp.mean(0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1.0 - log_variance, axis=-1))
    value = 0.5 * reconstruction + beta * divergence
    return value, {"loss": value, "reconstruction": reconstruction, "divergence": divergence}


def spread(key: Key, count: int, size: int) -> Float[Array, "k z"]:
    """Points that stand for N(0, I) with little error: the centroids of draws from it."""
    draw_key, centroid_key = jax.random.split(key)
    draws = jax.random.normal(draw_key, (max(PRIOR_DRAWS, count), size))
    return centroids_of(centroid_key, draws, count, restarts=4, steps=50)

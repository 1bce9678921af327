"""Generators of skills (RSD): a population of Gaussians over z, each trained to maximise the regret of the policy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.nets.optim import gradient_step, new_trained
from edl.types import Key, Metrics, Scalar

GENERATOR_STEPS, GENERATOR_RATE, GENERATOR_SAMPLES = 100, 3e-2, 64
"""Gradient steps, learning rate and samples per step of a new generator; the first two are the authors'."""


class Generators(NamedTuple):
    """Gaussians over z. ``present`` is 0 for an empty place of the population."""

    means: Float[Array, "g z"]
    log_stds: Float[Array, "g z"]
    present: Float[Array, " g"]

    def log_density(self, code: Float[Array, " z"]) -> Scalar:
        """log p(z) of the population; that of the uniform distribution over the box if it is empty."""
        logs = jnp.sum(jax.scipy.stats.norm.logpdf(code, self.means, jnp.exp(self.log_stds)), axis=1)
        count = jnp.sum(self.present)
        mixture = jax.nn.logsumexp(jnp.where(self.present > 0, logs, -jnp.inf)) - jnp.log(jnp.maximum(count, 1.0))
        return jnp.where(count > 0, jnp.maximum(mixture, -20.0), -code.shape[0] * jnp.log(2.0))


class GeneratorObjective(NamedTuple):
    """What a new generator maximises: regret, distance from the population, and nearness to reached last states.

    ``reached`` are states of the map; ``last`` is 1 for those in which an episode ended. ``novelty`` and ``nearness``
    are weights.
    """

    regret: Callable[[Float[Array, " z"]], Scalar]
    reached: Float[Array, "n z"]
    last: Float[Array, " n"]
    novelty: float | Scalar
    nearness: float | Scalar


def no_generators(number: int, size: int) -> Generators:
    """An empty population with this number of places."""
    return Generators(jnp.zeros((number, size)), jnp.zeros((number, size)), jnp.zeros(number))


def draw_code(key: Key, population: Generators) -> Float[Array, " z"]:
    """z from a generator of the population; uniform over the box if there is none."""
    which_key, noise_key, box_key = jax.random.split(key, 3)
    size = population.means.shape[1]
    row = jax.random.categorical(which_key, jnp.where(population.present > 0, 0.0, -1e9))
    drawn = population.means[row] + jnp.exp(population.log_stds[row]) * jax.random.normal(noise_key, (size,))
    uniform = jax.random.uniform(box_key, (size,), minval=-1.0, maxval=1.0)
    return jnp.clip(jnp.where(jnp.any(population.present > 0), drawn, uniform), -1.0, 1.0)


def add_generator(
    key: Key,
    population: Generators,
    objective: GeneratorObjective,
) -> Generators:
    """Train a new generator by REINFORCE, and put it into an empty place or that of the generator of least regret."""
    optimiser = optax.adam(GENERATOR_RATE)
    size = population.means.shape[1]

    def loss(params: Any, noise: Float[Array, "m z"]) -> tuple[Scalar, Metrics]:
        mean, log_std = params
        codes = jax.lax.stop_gradient(jnp.clip(mean + jnp.exp(log_std) * noise, -1.0, 1.0))
        regrets = jax.vmap(objective.regret)(codes)
        scores = standardised(regrets) - objective.novelty * standardised(jax.vmap(population.log_density)(codes))
        logs = jnp.sum(jax.scipy.stats.norm.logpdf(codes, mean, jnp.exp(log_std)), axis=1)
        to_reached = jnp.sum(jax.scipy.stats.norm.logpdf(objective.reached, mean, jnp.exp(log_std)), axis=1)
        nearest = jnp.minimum(jnp.max(jnp.where(objective.last > 0, to_reached, -20.0)), 0.0)
        # The entropy of a Gaussian is the sum of its log_std, up to a constant.
        return -jnp.mean(jax.lax.stop_gradient(scores) * logs) - objective.nearness * nearest - jnp.sum(log_std), {}

    first_key, *keys = jax.random.split(key, 1 + GENERATOR_STEPS)
    mean = jax.random.uniform(first_key, (size,), minval=-0.5, maxval=0.5)
    first = new_trained(optimiser, (mean, jnp.full(size, -1.0)))
    noises = jax.vmap(lambda key: jax.random.normal(key, (GENERATOR_SAMPLES, size)))(jnp.stack(keys))
    trained, _ = jax.lax.scan(lambda trained, noise: gradient_step(optimiser, trained, loss, noise), first, noises)
    mean, log_std = trained.params
    own = jnp.where(population.present > 0, jax.vmap(objective.regret)(population.means), -jnp.inf)
    row = jnp.argmin(own)
    return Generators(
        population.means.at[row].set(jnp.clip(mean, -1.0, 1.0)),
        population.log_stds.at[row].set(jnp.clip(log_std, -3.0, 0.0)),
        population.present.at[row].set(1.0),
    )


def standardised(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Zero mean and unit variance."""
    return (x - jnp.mean(x)) / (jnp.std(x) + 1e-6)

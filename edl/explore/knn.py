"""Particle entropy (APT: Liu and Abbeel, 2021; RE3: Seo et al., 2021): novel is what is far from its neighbours.

The entropy of where the agent has been, estimated from distances between particles, is maximised by

    r(s') = log(c + 1/k sum_{s_j in kNN(s')} ||s' - s_j||),

the s_j being a uniform sample of all states visited so far.

Departs from the papers: distances are between whitened states, not between learned (APT) or random (RE3) embeddings of
images, because our states are low-dimensional features already; and neighbours come from a reservoir of fixed size
instead of the whole replay buffer, so that the cost of a step does not grow.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import States
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.bonus import flat_reached, no_skill, pursue
from edl.explore.region import Predicate
from edl.nets.density import squared_distances
from edl.nets.normalise import RunningMoments, running_moments
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOState
from edl.types import Key, Metrics, Scalar


@config
class KNNConfig:
    """100,000 steps in a world of 50."""

    iterations: int = 100
    rollouts: int = 20
    particles: int = 2048
    """Visited states that are remembered, a uniform sample of all."""
    neighbours: int = 12
    constant: float = 1.0
    """c, for which APT takes 1."""
    learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy_weight: float = 0.01
    num_samples: int = 8192
    region: Predicate | None = None


class Particles(NamedTuple):
    """A uniform sample of the ``seen`` states so far; before there are as many, the rest of the rows is padding."""

    states: Float[Array, "p s"]
    seen: Int[Array, ""]
    moments: RunningMoments


def knn(env: Env, config: KNNConfig) -> Program[PPOState, States]:
    """Explore what is far from everything visited."""
    return pursue(env, knn_bonus(env.feature_size, config), config)


def knn_bonus(size: int, config: KNNConfig) -> Objective:
    """The bonus for states of ``size`` dimensions."""

    def init(key: Key) -> Particles:
        return Particles(jnp.zeros((config.particles, size)), jnp.int32(0), running_moments(size))

    def reward(particles: Particles, reached: Float[Array, " s"], skill: object) -> Scalar:
        distance = mean_distance(particles, reached, config.neighbours)
        # Nothing is novel before there are neighbours: in the first iteration.
        return jnp.where(jnp.isfinite(distance), jnp.log(config.constant + distance), 0.0)

    def update(key: Key, particles: Particles, episodes: Episode) -> tuple[Particles, Metrics]:
        reached, valid = flat_reached(episodes)
        states, seen = admit(key, particles.states, particles.seen, reached, valid)
        return Particles(states, seen, particles.moments.update(reached, valid)), {}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def mean_distance(particles: Particles, state: Float[Array, " s"], neighbours: int) -> Scalar:
    """Mean distance to the nearest particles, in standard deviations; infinite if there are too few of them."""
    scale = particles.moments.normaliser().scale
    real = jnp.arange(particles.states.shape[0]) < particles.seen
    squares = jnp.where(real, squared_distances(state / scale, particles.states / scale), jnp.inf)
    nearest, _ = jax.lax.top_k(-squares, neighbours)
    return jnp.mean(jnp.sqrt(-nearest))


def admit(
    key: Key,
    reservoir: Float[Array, "p s"],
    seen: Int[Array, ""],
    states: Float[Array, "n s"],
    valid: Bool[Array, " n"],
) -> tuple[Float[Array, "p s"], Int[Array, ""]]:
    """Reservoir sampling (Vitter, 1985, algorithm R), a batch at a time: the i-th state ever takes row j ~ U{0..i}."""
    size = reservoir.shape[0]
    number = seen + jnp.cumsum(valid) - 1
    drawn = jnp.floor(jax.random.uniform(key, number.shape) * (number + 1)).astype(jnp.int32)
    row = jnp.where(number < size, number, drawn)
    return reservoir.at[jnp.where(valid, row, size)].set(states, mode="drop"), seen + jnp.sum(valid)

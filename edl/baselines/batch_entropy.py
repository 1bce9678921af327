"""Particle entropy of a batch: the reward of APT, which CIC and APS share.

The entropy of the visited states, in a space h(s) that the method learns, is estimated from the distances between the
states of a batch (Liu and Abbeel, 2021):

    r(s) = log(1 + 1/k sum_{s_j in kNN(s)} ||h(s) - h(s_j)|| / scale)

The reward sees the batch through ``before_rewards`` of an `Objective`. The state of the objective is a `BatchState`; it
holds the particles only while the rewards of their batch are computed.

Departs from the authors' code: ``scale`` is the standard deviation of h over the batch, and not a running one of the
distances, so that it never lags behind h; and the neighbours are at most `MAX_PARTICLES` states of the batch, so that
the cost grows with the batch and not with its square.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.envs.rollout import Episode
from edl.nets.linalg import mean_nearest
from edl.nets.optim import Trained
from edl.types import Key, Metrics, Scalar

MAX_PARTICLES = 512


class Particles(NamedTuple):
    """The states of a batch in the learned space. Rows that are not ``real`` belong to steps after an episode's end."""

    points: Float[Array, "p d"]
    real: Bool[Array, " p"]
    scale: Scalar


class BatchState(NamedTuple):
    """What the method learns, and the particles of the batch whose rewards are computed (otherwise none)."""

    trained: Trained
    particles: Particles


def no_particles(size: int) -> Particles:
    return Particles(jnp.zeros((0, size)), jnp.zeros(0, bool), jnp.float32(1.0))


def particles_of(embed: Callable[[Float[Array, " s"]], Float[Array, " d"]], episodes: Episode) -> Particles:
    """The states that a batch of episodes reached (see `thinned`)."""
    reached = episodes.features[:, 1:].reshape(-1, episodes.features.shape[-1])
    real = episodes.valid.reshape(-1)
    reached, real = thinned((reached, real))
    points = jax.vmap(embed)(reached)
    weight = real[:, None] / jnp.maximum(jnp.sum(real), 1)
    variance = jnp.sum(weight * (points - jnp.sum(weight * points, axis=0)) ** 2)
    return Particles(points, real, jnp.sqrt(variance + 1e-12))


def thinned(rows: Any) -> Any:
    """All rows of a batch, or at most `MAX_PARTICLES` at regular intervals."""
    stride = -(-jax.tree.leaves(rows)[0].shape[0] // MAX_PARTICLES)
    return jax.tree.map(lambda x: x[::stride], rows)


def entropy_reward(point: Float[Array, " d"], particles: Particles, neighbours: int) -> Scalar:
    """log(1 + mean distance to the nearest particles), 0 if there are fewer than ``neighbours``."""
    if particles.points.shape[0] < neighbours:
        return jnp.float32(0.0)
    distance = mean_nearest(point, particles.points, particles.real, neighbours) / particles.scale
    return jnp.where(jnp.isfinite(distance), jnp.log1p(distance), 0.0)


def see_batch(embed: Callable[[Any], Callable]) -> Callable[[BatchState, Episode], BatchState]:
    """``before_rewards``: put the particles of the batch into the state. ``embed`` makes h from the parameters."""

    def before_rewards(state: BatchState, episodes: Episode) -> BatchState:
        return state._replace(particles=particles_of(embed(state.trained.params), episodes))

    return before_rewards


def learn_and_forget(
    fit: Callable[[Key, Trained, Episode], tuple[Trained, Metrics]], size: int
) -> Callable[[Key, BatchState, Episode], tuple[BatchState, Metrics]]:
    """``update``: learn from the batch with ``fit``, and remove the particles from the state."""

    def update(key: Key, state: BatchState, episodes: Episode) -> tuple[BatchState, Metrics]:
        trained, metrics = fit(key, state.trained, episodes)
        return BatchState(trained, no_particles(size)), metrics

    return update

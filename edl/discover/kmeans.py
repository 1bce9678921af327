"""k-means as skill discovery: each skill is a centroid, and the codes are the goals themselves.

This is the paper's VQ-VAE with the identity as encoder and decoder: z = s, q(z|s) is one-hot on the nearest centroid,
and q(s|z) is Gaussian around it. Lloyd's algorithm (1982) starts from k-means++ centroids (Arthur and Vassilvitskii,
2007). It runs several times, and the best result is kept. States are normalised by the moments of the dataset.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillModel, States
from edl.config import config
from edl.discover.samples import check_enough, subsample
from edl.discover.skill_model import build_skill_model
from edl.nets.linalg import squared_distances
from edl.nets.normalise import fit_normaliser
from edl.nets.quantiser import code_usage, lloyd, nearest, perplexity
from edl.program import Program
from edl.types import Key, Metrics, Scalar

FAR = 1e20
"""Squared distance before the first centroid is chosen: large, but finite when divided by the smallest draw."""


@config
class KMeansConfig:
    """Settings of k-means with restarts. It stops early once no centroid moves."""

    num_skills: int = 10
    """Number of skills (centroids)."""
    num_samples: int = 4096
    """Number of explored states to cluster."""
    restarts: int = 8
    """Number of runs from different initial centroids. The best one is kept."""
    lloyd_steps: int = 200
    """Maximum number of Lloyd steps."""
    steps_per_iteration: int = 20
    """Lloyd steps per iteration. Metrics are computed once per iteration."""
    snap_goals: bool = True
    """Move each goal to the nearest explored state."""

    @classmethod
    def paper(cls) -> "KMeansConfig":
        """Goals are not snapped, as in the paper; k-means itself is not in the paper."""
        return cls(snap_goals=False)


class KMeansState(NamedTuple):
    """The samples, and the centroids of every restart in normalised space."""

    samples: Float[Array, "n s"]
    centroids: Float[Array, "r k s"]
    done: Bool[Array, ""]


def kmeans(states: States, config: KMeansConfig) -> Program[KMeansState, SkillModel]:
    """Cluster the states; g_k is the k-th centroid."""
    check_enough(config, states)

    def init(key: Key) -> KMeansState:
        sample_key, centroid_key = jax.random.split(key)
        samples = subsample(sample_key, states, config.num_samples)
        x = jax.vmap(fit_normaliser(samples))(samples)
        centroids = seed_centroids(centroid_key, x, config.num_skills, config.restarts)
        return KMeansState(samples, centroids, jnp.bool_(False))

    def step(state: KMeansState, key: Key) -> tuple[KMeansState, Metrics]:
        x = jax.vmap(fit_normaliser(state.samples))(state.samples)
        centroids = jax.vmap(lloyd, in_axes=(None, 0, None))(x, state.centroids, config.steps_per_iteration)
        # At a fixed point further steps change nothing, so the state need not be frozen.
        done = jnp.all(centroids == state.centroids)
        return KMeansState(state.samples, centroids, done), clustering_metrics(x, best_restart(x, centroids), done)

    def finish(state: KMeansState) -> SkillModel:
        normaliser = fit_normaliser(state.samples)
        centroids = best_restart(jax.vmap(normaliser)(state.samples), state.centroids)
        snap_to = states.samples if config.snap_goals else None
        return build_skill_model(centroids, (None, None), normaliser, state.samples, snap_to=snap_to)

    return Program(init, step, finish, iterations=-(-config.lloyd_steps // config.steps_per_iteration))


def kmeans_centroids(
    key: Key, x: Float[Array, "n s"], num_skills: int, restarts: int, steps: int
) -> Float[Array, "k s"]:
    """The best centroids of ``restarts`` runs of ``steps`` Lloyd steps."""
    initial = seed_centroids(key, x, num_skills, restarts)
    return best_restart(x, jax.vmap(lloyd, in_axes=(None, 0, None))(x, initial, steps))


def seed_centroids(key: Key, x: Float[Array, "n s"], num_skills: int, restarts: int) -> Float[Array, "r k s"]:
    """Initial centroids for every restart, by k-means++."""
    # One flat draw: a draw with three axes takes three times as long to compile, and the times of several draws add up.
    draws = jax.random.exponential(key, (restarts * num_skills * x.shape[0],))
    return jax.vmap(kmeans_plus_plus, in_axes=(0, None))(draws.reshape(restarts, num_skills, -1), x)


def kmeans_plus_plus(draws: Float[Array, "k n"], x: Float[Array, "n s"]) -> Float[Array, "k s"]:
    """Choose samples as centroids, each with probability ~ its squared distance to the nearest earlier centroid.

    ``draws`` are from Exp(1): the smallest draw_i / rate_i has index i with probability rate_i / sum(rates).
    """

    def choose(gaps: Float[Array, " n"], draw: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " s"]]:
        centroid = x[jnp.argmax(gaps / jnp.maximum(draw, 1e-12))]
        return jnp.minimum(gaps, squared_distances(centroid, x)), centroid

    return jax.lax.scan(choose, jnp.full(x.shape[0], FAR), draws)[1]


def quantisation_error(x: Float[Array, "n s"], centroids: Float[Array, "k s"]) -> Scalar:
    """Mean squared distance from a sample to its nearest centroid."""
    return jnp.mean(jax.vmap(lambda sample: jnp.min(squared_distances(sample, centroids)))(x))


def best_restart(x: Float[Array, "n s"], centroids: Float[Array, "r k s"]) -> Float[Array, "k s"]:
    """The centroids of the restart with the smallest quantisation error."""
    return centroids[jnp.argmin(jax.vmap(quantisation_error, in_axes=(None, 0))(x, centroids))]


def clustering_metrics(x: Float[Array, "n s"], centroids: Float[Array, "k s"], done: Bool[Array, ""]) -> Metrics:
    """The quantisation error, and how evenly the centroids are used."""
    usage = code_usage(jax.vmap(nearest, in_axes=(0, None))(x, centroids), centroids.shape[0])
    return {
        "loss": quantisation_error(x, centroids),
        "perplexity": perplexity(usage),
        "usage_min": jnp.min(usage),
        "codes_used": jnp.sum(usage > 0).astype(jnp.float32),
        "done": done.astype(jnp.float32),
    }

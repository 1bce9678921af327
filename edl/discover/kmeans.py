"""k-means as skill discovery: a skill is a centroid, and the codes are the goals themselves.

The limit of the paper's VQ-VAE in which encoder and decoder are the identity: z = s, q(z|s) is one-hot on the nearest
centroid and q(s|z) is Gaussian around it. Lloyd's algorithm (1982) from k-means++ seeds (Arthur and Vassilvitskii,
2007), the best of several restarts, on states normalised by the moments of the dataset.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillModel, States
from edl.config import config
from edl.discover.goals import skill_model
from edl.discover.samples import subsample
from edl.nets.normalise import moments
from edl.nets.quantiser import lloyd, nearest, perplexity, shares, squared_distances
from edl.program import Program
from edl.types import Key, Metrics, Scalar

FAR = 1e20
"""Squared distance to the nearest of no seeds: large, and finite when divided by the smallest draw."""


@config
class KMeansConfig:
    """Lloyd's algorithm with restarts; it stops by itself once no centroid moves."""

    num_skills: int = 10
    num_samples: int = 4096
    """States to cluster, drawn from those explored."""
    restarts: int = 8
    """Runs from different seeds, of which the best is kept."""
    lloyd_steps: int = 200
    """At most."""
    steps_per_iteration: int = 20
    """Lloyd steps between two looks at the metrics."""
    snap_goals: bool = True
    """Move each goal to the nearest explored state."""

    @classmethod
    def paper(cls) -> "KMeansConfig":
        """The paper leaves a decoded goal where it is; k-means itself is not in the paper."""
        return cls(snap_goals=False)


class Clustering(NamedTuple):
    """The centroids of every restart, in normalised space, and the states they cluster."""

    samples: Float[Array, "n s"]
    centroids: Float[Array, "r k s"]
    done: Bool[Array, ""]


def kmeans(states: States, config: KMeansConfig) -> Program[Clustering, SkillModel]:
    """Cluster the states; g_k is the k-th centroid."""

    def init(key: Key) -> Clustering:
        sample_key, seed_key = jax.random.split(key)
        samples = subsample(sample_key, states, config.num_samples)
        x = jax.vmap(moments(samples))(samples)
        return Clustering(samples, seeds_of(seed_key, x, config.num_skills, config.restarts), jnp.bool_(False))

    def step(state: Clustering, key: Key) -> tuple[Clustering, Metrics]:
        x = jax.vmap(moments(state.samples))(state.samples)
        centroids = jax.vmap(lloyd, in_axes=(None, 0, None))(x, state.centroids, config.steps_per_iteration)
        # A fixed point of Lloyd's algorithm is exact, and stepping from it again leads nowhere: nothing to freeze.
        done = jnp.all(centroids == state.centroids)
        return Clustering(state.samples, centroids, done), report(x, best(x, centroids), done)

    def finish(state: Clustering) -> SkillModel:
        normaliser = moments(state.samples)
        centroids = best(jax.vmap(normaliser)(state.samples), state.centroids)
        snap_to = states.samples if config.snap_goals else None
        return skill_model(centroids, (None, None), normaliser, state.samples, snap_to=snap_to)

    return Program(init, step, finish, iterations=-(-config.lloyd_steps // config.steps_per_iteration))


def centroids_of(key: Key, x: Float[Array, "n s"], num_skills: int, restarts: int, steps: int) -> Float[Array, "k s"]:
    """The best centroids of ``restarts`` runs, at once."""
    seeds = seeds_of(key, x, num_skills, restarts)
    return best(x, jax.vmap(lloyd, in_axes=(None, 0, None))(x, seeds, steps))


def seeds_of(key: Key, x: Float[Array, "n s"], num_skills: int, restarts: int) -> Float[Array, "r k s"]:
    """k-means++ seeds for every restart."""
    # One flat draw: a draw of many axes takes three times as long to compile, and every further draw as long again.
    draws = jax.random.exponential(key, (restarts * num_skills * x.shape[0],))
    return jax.vmap(plus_plus, in_axes=(0, None))(draws.reshape(restarts, num_skills, -1), x)


def plus_plus(draws: Float[Array, "k n"], x: Float[Array, "n s"]) -> Float[Array, "k s"]:
    """k-means++: each seed is a sample, drawn in proportion to its squared distance to the nearest seed before it.

    ``draws`` are from Exp(1): of clocks that ring after draw / rate, i is first with probability rate_i / sum(rates).
    """

    def choose(away: Float[Array, " n"], draw: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " s"]]:
        seed = x[jnp.argmax(away / jnp.maximum(draw, 1e-12))]
        return jnp.minimum(away, squared_distances(seed, x)), seed

    return jax.lax.scan(choose, jnp.full(x.shape[0], FAR), draws)[1]


def quantisation_error(x: Float[Array, "n s"], centroids: Float[Array, "k s"]) -> Scalar:
    """Mean squared distance of a sample to its centroid."""
    return jnp.mean(jax.vmap(lambda sample: jnp.min(squared_distances(sample, centroids)))(x))


def best(x: Float[Array, "n s"], centroids: Float[Array, "r k s"]) -> Float[Array, "k s"]:
    """The restart with the least quantisation error."""
    return centroids[jnp.argmin(jax.vmap(quantisation_error, in_axes=(None, 0))(x, centroids))]


def report(x: Float[Array, "n s"], centroids: Float[Array, "k s"], done: Bool[Array, ""]) -> Metrics:
    """How well the centroids stand for the samples, and how evenly."""
    usage = shares(jax.vmap(nearest, in_axes=(0, None))(x, centroids), centroids.shape[0])
    return {
        "loss": quantisation_error(x, centroids),
        "perplexity": perplexity(usage),
        "usage_min": jnp.min(usage),
        "codes_used": jnp.sum(usage > 0).astype(jnp.float32),
        "done": done.astype(jnp.float32),
    }

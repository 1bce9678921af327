"""Densities of visited states with one interface: ``fit(key, states, weights) -> Density``, ``density.log_prob(s)``.

`Histogram` is exact, for few dimensions. `KDE` (Parzen, 1962) and `KNN` (Loftsgaarden and Quesenberry, 1965) work in
any number of dimensions. ``weights`` are the weights of the states; a state of weight 0 is padding.
"""

import abc
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.config import check
from edl.nets.linalg import squared_distances
from edl.types import Key, Scalar

MAX_BINS = 2**20
"""Maximum number of bins of a histogram."""
MIN_SQUARED_RADIUS = 1e-12
"""Minimum squared radius of a ball of neighbours: samples may coincide."""


class Density(eqx.Module):
    """A probability density over states."""

    @abc.abstractmethod
    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """log p(s) of one state; -inf where the density is zero."""


Fit = Callable[..., Density]
"""``fit(key, states[n, s], weights[n] | None) -> Density``. The key is unused by fits without random numbers."""


class Histogram(Density):
    """Equal bins over a box: p(s) = mass of the bin of s / volume of the bin, and 0 outside the box."""

    low: Float[Array, " s"]
    side: Float[Array, " s"]
    mass: Float[Array, " bins"]
    bins: int = eqx.field(static=True)

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        index, inside = self.bin_of(state)
        return jnp.where(inside, jnp.log(self.mass[index]), -jnp.inf) - jnp.sum(jnp.log(self.side))

    def bin_of(self, state: Float[Array, " s"]) -> tuple[Array, Array]:
        """The index of the bin of ``state``, and whether the state is inside the box (upper edge included)."""
        place = (state - self.low) / self.side
        inside = jnp.all((place >= 0) & (place <= self.bins))
        place = jnp.clip(jnp.floor(place), 0, self.bins - 1).astype(jnp.int32)
        return jnp.sum(place * jnp.asarray(self.bins ** np.arange(state.shape[0]), jnp.int32)), inside


def fit_histogram(
    key: Key, states: Float[Array, "n s"], weights: Float[Array, " n"] | None = None, *, bins: int = 32
) -> Histogram:
    """A histogram with ``bins`` bins per dimension over the bounding box of the states."""
    shares = _shares(states, weights)
    size = states.shape[1]
    check(
        bins**size <= MAX_BINS,
        f"a histogram must have at most {MAX_BINS} bins (got {bins} bins in each of {size} dimensions). "
        "Use the density 'kde' or 'knn'.",
    )
    real = shares[:, None] > 0
    low = jnp.min(jnp.where(real, states, jnp.inf), axis=0)
    span = jnp.max(jnp.where(real, states, -jnp.inf), axis=0) - low
    # A constant dimension gets a box of side 1 around its value.
    low, span = jnp.where(span > 0, low, low - 0.5), jnp.where(span > 0, span, 1.0)
    empty = Histogram(low, span / bins, jnp.zeros(bins**size), bins)
    index, _ = jax.vmap(empty.bin_of)(states)
    return Histogram(low, span / bins, jnp.zeros(bins**size).at[index].add(shares), bins)


class KDE(Density):
    """Gaussian kernels: p(s) = sum_i w_i N(s; s_i, h^2 Sigma), Sigma the covariance of the samples.

    ``points`` are the samples after multiplication by ``whiten``, which turns the kernel into N(0, I).
    """

    points: Float[Array, "n s"]
    log_weights: Float[Array, " n"]
    whiten: Float[Array, "s s"]

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """The log of the sum of the kernels, without underflow far from the samples."""
        squares = squared_distances(self.whiten @ state, self.points)
        log_volume = jnp.sum(jnp.log(jnp.diagonal(self.whiten)))
        constant = log_volume - 0.5 * state.shape[0] * math.log(2 * math.pi)
        return jax.nn.logsumexp(self.log_weights - 0.5 * squares) + constant


def fit_kde(
    key: Key,
    states: Float[Array, "n s"],
    weights: Float[Array, " n"] | None = None,
    *,
    bandwidth: float | Scalar | None = None,
) -> KDE:
    """``bandwidth`` is h in standard deviations of the samples. If it is None, h = n_eff^(-1/(s+4)) (Scott's rule)."""
    shares = _shares(states, weights)
    size = states.shape[1]
    effective = 1 / jnp.sum(shares**2)
    factor = effective ** (-1 / (size + 4)) if bandwidth is None else bandwidth
    centred = states - shares @ states
    covariance = (centred * shares[:, None]).T @ centred * effective / jnp.maximum(effective - 1, 1.0)
    # The ridge keeps the kernels from being infinitely thin if the samples lie in a plane or in a point.
    ridge = 1e-6 * jnp.trace(covariance) / size + 1e-12
    root = factor * jnp.linalg.cholesky(covariance + ridge * jnp.eye(size))
    whiten = jax.scipy.linalg.solve_triangular(root, jnp.eye(size), lower=True)
    return KDE(states @ whiten.T, jnp.log(shares), whiten)


class KNN(Density):
    """p(s) = (mass of the k nearest samples) / (volume of the ball that contains them)."""

    points: Float[Array, "n s"]
    shares: Float[Array, " n"]
    neighbours: int = eqx.field(static=True)

    def log_prob(self, state: Float[Array, " s"]) -> Scalar:
        """log m_k - log V_s - s log r_k with the volume V_s of the unit ball. A sample is a neighbour of itself."""
        size = state.shape[0]
        squares = jnp.where(self.shares > 0, squared_distances(state, self.points), jnp.inf)
        negated, nearest = jax.lax.top_k(-squares, self.neighbours)
        log_radius = 0.5 * jnp.log(jnp.maximum(-negated[-1], MIN_SQUARED_RADIUS))
        log_ball = 0.5 * size * math.log(math.pi) - math.lgamma(0.5 * size + 1)
        return jnp.log(jnp.sum(self.shares[nearest])) - log_ball - size * log_radius


def fit_knn(
    key: Key, states: Float[Array, "n s"], weights: Float[Array, " n"] | None = None, *, neighbours: int = 12
) -> KNN:
    """Store the samples. Distances are Euclidean: scale the dimensions first if their units differ."""
    return KNN(states, _shares(states, weights), min(neighbours, states.shape[0]))


DENSITIES: dict[str, Fit] = {"histogram": fit_histogram, "kde": fit_kde, "knn": fit_knn}


def _shares(states: Float[Array, "n s"], weights: Float[Array, " n"] | None) -> Float[Array, " n"]:
    """The weights, scaled to sum to 1."""
    count = states.shape[0]
    return jnp.full(count, 1 / count) if weights is None else weights / jnp.maximum(jnp.sum(weights), 1e-12)

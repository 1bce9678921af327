"""Action distributions, parametrised by the output of a policy network.

Each is a pytree that contains the action range. Its methods take the flat vector of parameters that the network
computes, and one action. Continuous actions are drawn on the unit interval (or the real line) and scaled to the range.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.envs.base import Box, Discrete
from edl.nets.gamma_functions import betaln, digamma
from edl.types import Key, Scalar

PROPOSALS = 10
"""Proposals of the Beta sampler. Each is rejected with probability < 0.32, and all of them with < 1.2e-5."""
EDGE = 1e-6
"""Minimum distance of an action from the ends of the unit range, where log-densities are infinite."""


class Distribution(eqx.Module):
    """pi(a|.) as a function of the network's output."""

    size: eqx.AbstractVar[int]
    """Size of the network's output (static)."""

    @abc.abstractmethod
    def noise(self, key: Key) -> Array:
        """The random numbers of one action. They do not depend on ``params``, so a whole episode draws them at once."""

    @abc.abstractmethod
    def transform(self, noise: Array, params: Float[Array, " p"]) -> Array:
        """The action for this noise and these parameters."""

    def sample(self, key: Key, params: Float[Array, " p"]) -> Array:
        return self.transform(self.noise(key), params)

    @abc.abstractmethod
    def log_prob(self, params: Float[Array, " p"], action: Array) -> Scalar:
        """log pi(a|.)."""

    @abc.abstractmethod
    def entropy(self, params: Float[Array, " p"]) -> Scalar:
        """Entropy per action dimension on the unscaled range, as in the bonus of the authors' recipe."""

    @abc.abstractmethod
    def mean(self, params: Float[Array, " p"]) -> Array:
        """The deterministic action: the mean, or the mode if actions are discrete."""


class Beta(Distribution):
    """Independent Beta(alpha, beta) per dimension. alpha, beta = softplus(.) + 1.05, so every density has one mode."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]
    size: int = eqx.field(static=True)

    def concentrations(self, params: Float[Array, " p"]) -> tuple[Float[Array, " a"], Float[Array, " a"]]:
        """alpha and beta of each dimension."""
        alpha, beta = jnp.split(jax.nn.softplus(params) + 1.05, 2)
        return alpha, beta

    def noise(self, key: Key) -> Float[Array, "2 r a"]:
        return beta_noise(key, self.low.shape)

    def transform(self, noise: Float[Array, "2 r a"], params: Float[Array, " p"]) -> Float[Array, " a"]:
        unit = beta_from_noise(noise, *self.concentrations(params))
        return self.low + (self.high - self.low) * jnp.clip(unit, EDGE, 1 - EDGE)

    def log_prob(self, params: Float[Array, " p"], action: Float[Array, " a"]) -> Scalar:
        """sum_i log Beta(x_i; alpha_i, beta_i) - log(high_i - low_i)."""
        alpha, beta = self.concentrations(params)
        width = self.high - self.low
        x = jnp.clip((action - self.low) / width, EDGE, 1 - EDGE)
        density = (alpha - 1) * jnp.log(x) + (beta - 1) * jnp.log1p(-x) - betaln(alpha, beta)
        return jnp.sum(density - jnp.log(width))

    def entropy(self, params: Float[Array, " p"]) -> Scalar:
        """Mean entropy of Beta(alpha, beta) over dimensions; 0 for the uniform distribution."""
        alpha, beta = self.concentrations(params)
        total = alpha + beta
        return jnp.mean(
            betaln(alpha, beta)
            - (alpha - 1) * digamma(alpha)
            - (beta - 1) * digamma(beta)
            + (total - 2) * digamma(total)
        )

    def mean(self, params: Float[Array, " p"]) -> Float[Array, " a"]:
        """alpha / (alpha + beta), scaled."""
        alpha, beta = self.concentrations(params)
        return self.low + (self.high - self.low) * alpha / (alpha + beta)


class TanhGaussian(Distribution):
    """A Gaussian squashed by tanh, as in SAC."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]
    size: int = eqx.field(static=True)

    def moments(self, params: Float[Array, " p"]) -> tuple[Float[Array, " a"], Float[Array, " a"]]:
        """Mean and log standard deviation before squashing."""
        mean, log_std = jnp.split(params, 2)
        return mean, jnp.clip(log_std, -5.0, 2.0)

    def noise(self, key: Key) -> Float[Array, " a"]:
        """Standard normal noise."""
        return jax.random.normal(key, self.low.shape)

    def transform(self, noise: Float[Array, " a"], params: Float[Array, " p"]) -> Float[Array, " a"]:
        """tanh(mean + std noise), scaled."""
        return self.reparametrise(noise, params)[0]

    def reparametrise(self, noise: Float[Array, " a"], params: Float[Array, " p"]) -> tuple[Float[Array, " a"], Scalar]:
        """The action for standard normal ``noise``, and its log-density, computed without inverting tanh."""
        mean, log_std = self.moments(params)
        u = mean + jnp.exp(log_std) * noise
        return self.scale(jnp.tanh(u)), self.log_density(mean, log_std, u)

    def log_prob(self, params: Float[Array, " p"], action: Float[Array, " a"]) -> Scalar:
        """log N(u; mean, std) - log |d tanh(u) / du| - log(range / 2), u = atanh(a)."""
        unit = 2 * (action - self.low) / (self.high - self.low) - 1
        u = jnp.arctanh(jnp.clip(unit, -1 + EDGE, 1 - EDGE))
        return self.log_density(*self.moments(params), u)

    def log_density(self, mean: Float[Array, " a"], log_std: Float[Array, " a"], u: Float[Array, " a"]) -> Scalar:
        """Log-density of the action tanh(u)."""
        normal = jax.scipy.stats.norm.logpdf(u, mean, jnp.exp(log_std))
        squash = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
        return jnp.sum(normal - squash - jnp.log((self.high - self.low) / 2))

    def entropy(self, params: Float[Array, " p"]) -> Scalar:
        """Gaussian entropy plus log |d tanh| at the mean: a differentiable approximation, as no closed form exists."""
        mean, log_std = self.moments(params)
        return jnp.mean(
            0.5 * jnp.log(2 * jnp.pi * jnp.e) + log_std + 2 * (jnp.log(2.0) - mean - jax.nn.softplus(-2 * mean))
        )

    def mean(self, params: Float[Array, " p"]) -> Float[Array, " a"]:
        """tanh of the Gaussian's mean."""
        return self.scale(jnp.tanh(self.moments(params)[0]))

    def scale(self, unit: Float[Array, " a"]) -> Float[Array, " a"]:
        """Scale from [-1, 1] to the action range."""
        return self.low + (self.high - self.low) * (jnp.clip(unit, -1 + EDGE, 1 - EDGE) + 1) / 2


class Categorical(Distribution):
    """Discrete actions from logits."""

    size: int = eqx.field(static=True)

    def noise(self, key: Key) -> Float[Array, " p"]:
        """Standard Gumbel noise."""
        return jax.random.gumbel(key, (self.size,))

    def transform(self, noise: Float[Array, " p"], params: Float[Array, " p"]) -> Int[Array, ""]:
        """argmax_a params_a + noise_a: a sample from softmax(params)."""
        return jnp.argmax(params + noise).astype(jnp.int32)

    def log_prob(self, params: Float[Array, " p"], action: Int[Array, ""]) -> Scalar:
        """log softmax(params)_a."""
        return jax.nn.log_softmax(params)[action]

    def entropy(self, params: Float[Array, " p"]) -> Scalar:
        """-sum p log p."""
        log_p = jax.nn.log_softmax(params)
        return -jnp.sum(jnp.exp(log_p) * log_p)

    def mean(self, params: Float[Array, " p"]) -> Int[Array, ""]:
        """The most likely action."""
        return jnp.argmax(params).astype(jnp.int32)


def action_distribution(space: Box | Discrete, continuous: str = "beta") -> Distribution:
    """Categorical for discrete actions; otherwise the ``continuous`` one, ``beta`` or ``tanh_gaussian``."""
    if isinstance(space, Discrete):
        return Categorical(space.n)
    kind = {"beta": Beta, "tanh_gaussian": TanhGaussian}[continuous]
    return kind(space.low, space.high, 2 * space.size)


def beta_noise(key: Key, shape: tuple[int, ...]) -> Float[Array, "2 r a"]:
    """The random part of the proposals of `beta_from_noise`: log(u / (1 - u)) and log(u^2 v), with u, v uniform."""
    u, v = jax.random.uniform(key, (2, PROPOSALS, *shape), minval=EDGE, maxval=1 - EDGE)
    return jnp.stack([jnp.log(u) - jnp.log1p(-u), 2 * jnp.log(u) + jnp.log(v)])


def beta_from_noise(
    noise: Float[Array, "2 r a"], alpha: Float[Array, " a"], beta: Float[Array, " a"]
) -> Float[Array, " a"]:
    """A sample of Beta(alpha, beta), alpha, beta > 1, by Cheng's algorithm BB (1978) with a fixed number of proposals.

    ``jax.random.beta`` uses two gamma rejection loops, which vectorise badly. Here all proposals are computed at once,
    and the first accepted one is returned.
    """
    small, large = jnp.minimum(alpha, beta), jnp.maximum(alpha, beta)
    total = alpha + beta
    rate = jnp.sqrt((total - 2) / (2 * alpha * beta - total))
    v = rate * noise[0]
    w = small * jnp.exp(v)
    r = (small + 1 / rate) * v - jnp.log(4.0)
    accepted = r + total * (jnp.log(total) - jnp.log(large + w)) >= noise[1]
    w = jnp.take_along_axis(w, jnp.argmax(accepted, axis=0, keepdims=True), axis=0)[0]
    return jnp.where(alpha <= beta, w, large) / (large + w)

"""Normalisation of inputs by the moments of a dataset, or by running moments.

The rule for all methods: observations are normalised by the moments of what the run has seen. PPO and SAC keep running
moments (``normalise`` in their configs); EDL has explored before it learns, and passes the moments of the explored
states. The paper's recipe has its own rule: see docs/paper_to_code.md.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.nets.mlp import MLP
from edl.types import Scalar


class Normaliser(eqx.Module):
    """x -> (x - mean) / scale."""

    mean: Float[Array, " s"]
    scale: Float[Array, " s"]

    def __call__(self, x: Float[Array, " s"]) -> Float[Array, " s"]:
        return (x - self.mean) / self.scale

    def inverse(self, x: Float[Array, " s"]) -> Float[Array, " s"]:
        return x * self.scale + self.mean


def identity_normaliser(size: int) -> Normaliser:
    return Normaliser(jnp.zeros(size), jnp.ones(size))


def fold_normaliser(net: MLP, normaliser: Normaliser) -> MLP:
    """The network x -> net(normaliser(x)). The normaliser may have more columns than the network has inputs."""
    mean, scale = normaliser.mean[: net.input_size], normaliser.scale[: net.input_size]
    first = net.weights[0] / scale[:, None]
    return MLP([first, *net.weights[1:]], [net.biases[0] - mean @ first, *net.biases[1:]], net.activation)


def fit_normaliser(x: Float[Array, "n s"]) -> Normaliser:
    """Normalise a dataset to zero mean and unit variance; a constant dimension keeps its scale."""
    scale = jnp.std(x, axis=0)
    return Normaliser(jnp.mean(x, axis=0), jnp.where(scale > 1e-6, scale, 1.0))


class RunningMoments(eqx.Module):
    """Moments of all rows so far (Chan's parallel update, exact for any batch sizes)."""

    count: Scalar
    mean: Float[Array, " s"]
    squares: Float[Array, " s"]

    def update(self, x: Float[Array, "n s"], valid: Bool[Array, " n"]) -> "RunningMoments":
        """Add the ``valid`` rows of a batch."""
        weight = valid.astype(x.dtype)[:, None]
        count = jnp.sum(weight)
        mean = jnp.sum(weight * x, axis=0) / jnp.maximum(count, 1.0)
        squares = jnp.sum(weight * (x - mean) ** 2, axis=0)
        total = self.count + count
        delta = mean - self.mean
        safe = jnp.maximum(total, 1.0)
        return RunningMoments(
            total,
            self.mean + delta * count / safe,
            self.squares + squares + delta**2 * self.count * count / safe,
        )

    def normaliser(self) -> Normaliser:
        """The normaliser with these moments; the identity if there are no rows yet."""
        variance = self.squares / jnp.maximum(self.count, 1.0)
        return Normaliser(self.mean, jnp.where(variance > 1e-12, jnp.sqrt(jnp.maximum(variance, 1e-12)), 1.0))


def running_moments(size: int) -> RunningMoments:
    """The moments of zero rows."""
    return RunningMoments(jnp.float32(0.0), jnp.zeros(size), jnp.zeros(size))

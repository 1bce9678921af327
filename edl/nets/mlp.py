"""A multi-layer perceptron in which every leaf is an array: a scan can carry it, and optax needs no filters."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.types import Key


class MLP(eqx.Module):
    """``sizes[0] -> ... -> sizes[-1]``, with ``activation`` between the layers."""

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]]
    activation: Callable = eqx.field(static=True, default=jax.nn.relu)

    def __call__(self, x: Float[Array, " i"]) -> Float[Array, " o"]:
        """The output for one input; use vmap for a batch."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]

    def apply_batch(self, x: Float[Array, "n i"]) -> Float[Array, "n o"]:
        """The outputs for a batch: the same as under vmap, with a cheaper gradient (see `narrow_matmul`)."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(x @ weight + bias)
        return narrow_matmul(x, self.weights[-1]) + self.biases[-1]

    @property
    def input_size(self) -> int:
        return self.weights[0].shape[-2]


@jax.custom_vjp
def narrow_matmul(x: Float[Array, "n i"], weight: Float[Array, "i o"]) -> Float[Array, "n o"]:
    """x @ weight for few outputs.

    The gradient with respect to the weight, x^T g, is computed as (g^T x)^T: on a CPU, XLA takes seven times as long
    for a product whose second factor has few columns as for one whose first factor has few rows.
    """
    return x @ weight


def _narrow_forward(x: Float[Array, "n i"], weight: Float[Array, "i o"]) -> tuple[Float[Array, "n o"], tuple]:
    return x @ weight, (x, weight)


def _narrow_backward(residuals: tuple, g: Float[Array, "n o"]) -> tuple[Float[Array, "n i"], Float[Array, "i o"]]:
    x, weight = residuals
    # The barrier keeps the compiler from transposing the product back.
    return g @ weight.T, jax.lax.optimization_barrier(g.T @ x).T


narrow_matmul.defvjp(_narrow_forward, _narrow_backward)


Initialisation = Literal["xavier", "fan_in"]
"""``xavier``: Xavier-uniform weights and zero biases. ``fan_in``: weights and biases from U(-1/sqrt(n), 1/sqrt(n)) in a
layer with n inputs, which is the default of PyTorch."""


def mlp(
    key: Key,
    sizes: Sequence[int],
    *,
    last_scale: float = 1.0,
    activation: Callable = jax.nn.relu,
    initialisation: Initialisation = "xavier",
) -> MLP:
    """An untrained network. ``last_scale`` scales the last layer of ``xavier`` (1e-2: a policy starts at its mean)."""
    shapes = list(itertools.pairwise(sizes))
    if initialisation == "fan_in":
        return _fan_in_mlp(key, shapes, activation)
    draws = _uniform_draws(key, [i * o for i, o in shapes])
    scales = [1.0] * (len(shapes) - 1) + [last_scale]
    weights = [
        scale * math.sqrt(6.0 / (i + o)) * draw.reshape(i, o)
        for draw, scale, (i, o) in zip(draws, scales, shapes, strict=True)
    ]
    return MLP(weights, [jnp.zeros(o) for _, o in shapes], activation)


def _fan_in_mlp(key: Key, shapes: list[tuple[int, int]], activation: Callable) -> MLP:
    draws = _uniform_draws(key, [(i + 1) * o for i, o in shapes])
    layers = [draw.reshape(i + 1, o) / math.sqrt(i) for draw, (i, o) in zip(draws, shapes, strict=True)]
    return MLP([layer[:-1] for layer in layers], [layer[-1] for layer in layers], activation)


def _uniform_draws(key: Key, sizes: Sequence[int]) -> list[Float[Array, " _"]]:
    """Numbers from U(-1, 1) for every layer."""
    ends = list(itertools.accumulate(sizes))
    # One draw for all layers, because every draw with its own shape takes a third of a second to compile.
    return jnp.split(jax.random.uniform(key, (ends[-1],), minval=-1.0, maxval=1.0), ends[:-1])

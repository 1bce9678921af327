"""A plain perceptron in which every leaf is an array: it can be a scan carry and go through optax unfiltered."""

import itertools
import math
from collections.abc import Callable, Sequence

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
        """One input; vmap for more."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


def mlp(key: Key, sizes: Sequence[int], *, last_scale: float = 1.0, activation: Callable = jax.nn.relu) -> MLP:
    """Xavier-uniform weights, zero biases; ``last_scale`` shrinks the last layer (1e-2 starts a policy at its mean)."""
    shapes = list(itertools.pairwise(sizes))
    ends = list(itertools.accumulate(i * o for i, o in shapes))
    # One draw for all layers: a draw per shape costs a third of a second of compilation each.
    draws = jnp.split(jax.random.uniform(key, (ends[-1],), minval=-1.0, maxval=1.0), ends[:-1])
    scales = [1.0] * (len(shapes) - 1) + [last_scale]
    weights = [
        scale * math.sqrt(6.0 / (i + o)) * draw.reshape(i, o)
        for draw, scale, (i, o) in zip(draws, scales, shapes, strict=True)
    ]
    return MLP(weights, [jnp.zeros(o) for _, o in shapes], activation)

"""A bidirectional LSTM (Hochreiter and Schmidhuber, 1997; Graves and Schmidhuber, 2005).

i, f, o = sigmoid(.),  g = tanh(.)  of  W [x_t, h_{t-1}] + b,      c_t = f c_{t-1} + i g,      h_t = o tanh(c_t)
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.types import Key


class Memory(NamedTuple):
    """The carry of an LSTM: c_t and h_t."""

    cell: Float[Array, " h"]
    hidden: Float[Array, " h"]


class LSTM(eqx.Module):
    """One LSTM layer with gates in the order i, f, g, o. Every leaf is an array, as in `MLP`."""

    weight: Float[Array, "_ _"]
    bias: Float[Array, " _"]

    def step(self, memory: Memory, x: Float[Array, " i"]) -> Memory:
        gates = jnp.concatenate([x, memory.hidden]) @ self.weight + self.bias
        enter, forget, candidate, output = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(forget) * memory.cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        return Memory(cell, jax.nn.sigmoid(output) * jnp.tanh(cell))

    def __call__(self, xs: Float[Array, "t i"]) -> Float[Array, "t h"]:
        """h_1 .. h_T of one sequence; use vmap for a batch."""

        def advance(memory: Memory, x: Float[Array, " i"]) -> tuple[Memory, Float[Array, " h"]]:
            memory = self.step(memory, x)
            return memory, memory.hidden

        zeros = jnp.zeros(self.bias.shape[0] // 4)
        _, hidden = jax.lax.scan(advance, Memory(zeros, zeros), xs)
        return hidden


class Bidirectional(eqx.Module):
    """Two LSTMs; the second one reads the sequence backwards."""

    forward: LSTM
    backward: LSTM

    def __call__(self, xs: Float[Array, "t i"]) -> Float[Array, "t h2"]:
        """For each element, the hidden states of both LSTMs."""
        return jnp.concatenate([self.forward(xs), self.backward(xs[::-1])[::-1]], axis=-1)


def lstm(key: Key, size: int, hidden_size: int) -> LSTM:
    """Uniform weights in +-1/sqrt(h). The bias of the forget gate is 1, so that the cell remembers at first."""
    bound = 1 / math.sqrt(hidden_size)
    weight = jax.random.uniform(key, (size + hidden_size, 4 * hidden_size), minval=-bound, maxval=bound)
    return LSTM(weight, jnp.zeros(4 * hidden_size).at[hidden_size : 2 * hidden_size].set(1.0))


def bidirectional(key: Key, size: int, hidden_size: int) -> Bidirectional:
    forward_key, backward_key = jax.random.split(key)
    return Bidirectional(lstm(forward_key, size, hidden_size), lstm(backward_key, size, hidden_size))

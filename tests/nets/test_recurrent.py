"""The LSTM agrees with values computed by hand, in both directions."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.nets.recurrent import LSTM, Memory, bidirectional, lstm


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_two_steps_by_hand():
    """One unit whose gates i, f, g, o are 1, 2, 3, 4 times (x + h)."""
    cell = LSTM(jnp.array([[1.0, 2.0, 3.0, 4.0]] * 2), jnp.zeros(4))
    c = h = 0.0
    expected = []
    for x in (0.5, -0.25):
        u = x + h
        c = sigmoid(2 * u) * c + sigmoid(u) * np.tanh(3 * u)
        h = sigmoid(4 * u) * np.tanh(c)
        expected.append([h])
    np.testing.assert_allclose(cell(jnp.array([[0.5], [-0.25]])), expected, rtol=1e-6)


def test_the_forget_gate_starts_with_bias_1():
    cell = lstm(jax.random.key(0), 2, 3)
    kept = cell.step(Memory(jnp.full(3, 2.0), jnp.zeros(3)), jnp.zeros(2))
    np.testing.assert_allclose(kept.cell, 2 * sigmoid(1.0), rtol=1e-6)


def test_the_backward_lstm_reads_from_the_end():
    both = bidirectional(jax.random.key(0), 2, 3)
    xs = jax.random.normal(jax.random.key(1), (5, 2))
    read = both(xs)
    np.testing.assert_allclose(read[:, :3], both.forward(xs))
    np.testing.assert_allclose(read[::-1, 3:], both.backward(xs[::-1]))
    changed = both(xs.at[-1].add(1.0))
    assert np.allclose(read[0, :3], changed[0, :3])
    assert not np.allclose(read[0, 3:], changed[0, 3:])

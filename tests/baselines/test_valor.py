"""VALOR: decoder input, reward, loss and curriculum by hand; training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.valor import (
    Decoder,
    DecoderRows,
    VALORConfig,
    decoder_loss,
    differences,
    log_decoder,
    next_num_contexts,
    valor,
)
from edl.nets.mlp import MLP
from edl.nets.recurrent import LSTM, Bidirectional
from tests.baselines.probe import increases, learn
from tests.learn.episodes import episode


def test_the_decoder_reads_differences_of_evenly_spaced_states():
    squares = [[float(t * t)] for t in range(7)]
    np.testing.assert_array_equal(differences(episode(squares), 3), [[4.0], [12.0], [20.0]])  # t = 0, 2, 4, 6
    np.testing.assert_array_equal(differences(episode(squares, length=4), 2), [[4.0], [12.0]])  # t = 0, 2, 4
    np.testing.assert_array_equal(differences(episode(squares, length=1), 2), [[0.0], [1.0]])  # t = 0, 0, 1


def test_differences_do_not_depend_on_the_position_of_the_trajectory():
    path = np.array([[0.0, 0.0], [1.0, 0.5], [1.0, 2.0]])
    np.testing.assert_allclose(differences(episode(path), 2), differences(episode(path + 7.0), 2))


def test_the_decoder_is_a_distribution_over_the_contexts_in_use():
    logits = jnp.log(jnp.array([0.5, 0.25, 8.0]))
    np.testing.assert_allclose(log_decoder(logits, jnp.int32(2)), [np.log(2 / 3), np.log(1 / 3), -np.inf], rtol=1e-6)
    np.testing.assert_allclose(np.exp(log_decoder(logits, jnp.int32(3))).sum(), 1.0, rtol=1e-6)


def tiny_decoder():
    """One LSTM unit per direction that depends on x only; the first two logits are 2 and -1 times the mean outputs."""
    cell = LSTM(jnp.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]), jnp.zeros(4))
    return Decoder(Bidirectional(cell, cell), MLP([jnp.array([[2.0, 0.0, 9.0], [0.0, -1.0, 9.0]])], [jnp.zeros(3)]))


def test_loss_by_hand_and_no_gradient_for_unused_contexts():
    """With one difference per trajectory, h = tanh(tanh(x) / 2) / 2 in both directions."""
    x, skills = np.array([1.0, -0.5]), np.array([0, 1])
    h = np.tanh(np.tanh(x) / 2) / 2
    logits = np.stack([2 * h, -h], axis=1)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = DecoderRows(jnp.asarray(x, jnp.float32)[:, None, None], jnp.asarray(skills), jnp.array([2, 2]))
    (loss, metrics), gradient = jax.value_and_grad(decoder_loss, has_aux=True)(tiny_decoder(), rows)
    assert np.isclose(loss, -log_p[np.arange(2), skills].mean())
    assert metrics["accuracy"] == 1.0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    np.testing.assert_array_equal(gradient.last.weights[0][:, 2], 0.0)


@pytest.mark.parametrize(
    ("contexts", "probability", "expected"), [(2, 0.85, 2), (2, 0.86, 4), (4, 1.0, 7), (7, 0.9, 10)]
)
def test_the_curriculum_by_hand(contexts, probability, expected):
    assert next_num_contexts(jnp.int32(contexts), jnp.float32(probability), jnp.float32(0.86), 10) == expected


def test_the_curriculum_stops_at_the_maximum():
    assert next_num_contexts(jnp.int32(10), jnp.float32(1.0), jnp.float32(0.86), 10) == 10


@pytest.mark.slow
def test_the_objective_increases_and_contexts_are_added():
    config = VALORConfig(num_skills=4, segments=3, hidden_size=16, learning_rate=5e-3)
    _, metrics = learn(valor, config)
    contexts = metrics["contexts"]
    assert (contexts[0], contexts[-1]) == (2, 4)
    assert (np.diff(contexts) >= 0).all()
    assert increases(metrics["information"], 0.6)
    assert metrics["decoder_probability"][-6:].mean() > 0.6

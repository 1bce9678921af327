"""A perceptron is what numpy computes from its leaves, and its leaves are arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from edl.nets.optim import descend, start
from edl.nets.mlp import mlp

KEY = jax.random.key(0)


def test_is_what_numpy_computes():
    net = mlp(KEY, (3, 5, 4, 2), activation=jnp.tanh)
    x = np.array([0.3, -2.0, 1.0], np.float32)
    first, second, last = (np.asarray(weight) for weight in net.weights)
    np.testing.assert_allclose(net(jnp.asarray(x)), np.tanh(np.tanh(x @ first) @ second) @ last, rtol=1e-5)


def test_rows_are_what_one_input_at_a_time_gives_and_so_are_their_gradients():
    net, x = mlp(KEY, (3, 6, 2)), jax.random.normal(KEY, (7, 3))
    wave = jnp.sin(jnp.arange(14.0)).reshape(7, 2)

    def together(net, x):
        return jnp.sum(net.rows(x) * wave)

    def apart(net, x):
        return jnp.sum(jax.vmap(net)(x) * wave)

    np.testing.assert_allclose(net.rows(x), jax.vmap(net)(x), rtol=1e-5, atol=1e-6)
    for one, other in zip(
        jax.tree.leaves(jax.grad(together, (0, 1))(net, x)),
        jax.tree.leaves(jax.grad(apart, (0, 1))(net, x)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert net.inputs == 3


def test_there_is_no_activation_after_the_last_layer():
    net = mlp(KEY, (4, 8, 50))
    assert jnp.min(net(jnp.ones(4))) < 0 < jnp.max(net(jnp.ones(4)))


def test_weights_are_xavier_uniform_and_biases_zero():
    net = mlp(KEY, (30, 60, 20))
    for weight, (i, o) in zip(net.weights, [(30, 60), (60, 20)], strict=True):
        bound = np.sqrt(6 / (i + o))
        assert weight.shape == (i, o)
        assert 0.98 * bound < jnp.max(jnp.abs(weight)) <= bound
        assert jnp.var(weight) == pytest.approx(bound**2 / 3, rel=0.1)
    assert all(not jnp.any(bias) for bias in net.biases)


def test_layers_are_drawn_independently():
    net = mlp(KEY, (20, 20, 20))
    assert abs(np.corrcoef(net.weights[0].ravel(), net.weights[1].ravel())[0, 1]) < 0.15


def test_last_scale_shrinks_the_last_layer_alone():
    full, small = mlp(KEY, (3, 5, 2)), mlp(KEY, (3, 5, 2), last_scale=1e-2)
    np.testing.assert_array_equal(small.weights[0], full.weights[0])
    np.testing.assert_allclose(small.weights[1], 1e-2 * full.weights[1], rtol=1e-6)


def test_can_be_the_carry_of_a_scan_that_descends():
    optimiser = optax.sgd(0.1)

    def loss(net, x):
        value = jnp.sum(net(x) ** 2)
        return value, {"loss": value}

    trained = start(optimiser, mlp(KEY, (2, 4, 1)))
    _, metrics = jax.lax.scan(lambda t, x: descend(optimiser, t, loss, x), trained, jnp.ones((20, 2)))
    assert metrics["loss"][-1] < 0.1 * metrics["loss"][0]

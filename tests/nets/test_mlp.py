"""The MLP agrees with numpy, and a scan can carry it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from edl.nets.mlp import mlp
from edl.nets.optim import gradient_step, new_trained

KEY = jax.random.key(0)


def test_agrees_with_numpy():
    net = mlp(KEY, (3, 5, 4, 2), activation=jnp.tanh)
    x = np.array([0.3, -2.0, 1.0], np.float32)
    first, second, last = (np.asarray(weight) for weight in net.weights)
    np.testing.assert_allclose(net(jnp.asarray(x)), np.tanh(np.tanh(x @ first) @ second) @ last, rtol=1e-5)


def test_apply_batch_and_its_gradients_equal_those_under_vmap():
    net, x = mlp(KEY, (3, 6, 2)), jax.random.normal(KEY, (7, 3))
    wave = jnp.sin(jnp.arange(14.0)).reshape(7, 2)

    def with_apply_batch(net, x):
        return jnp.sum(net.apply_batch(x) * wave)

    def with_vmap(net, x):
        return jnp.sum(jax.vmap(net)(x) * wave)

    np.testing.assert_allclose(net.apply_batch(x), jax.vmap(net)(x), rtol=1e-5, atol=1e-6)
    for one, other in zip(
        jax.tree.leaves(jax.grad(with_apply_batch, (0, 1))(net, x)),
        jax.tree.leaves(jax.grad(with_vmap, (0, 1))(net, x)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert net.input_size == 3


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


def test_weights_and_biases_can_be_uniform_by_the_number_of_inputs():
    net = mlp(KEY, (25, 60, 4), initialisation="fan_in", last_scale=1e-2)
    for weight, bias, inputs in zip(net.weights, net.biases, (25, 60), strict=True):
        bound = 1 / np.sqrt(inputs)
        assert 0.95 * bound < jnp.max(jnp.abs(weight)) <= bound
        assert jnp.var(weight) == pytest.approx(bound**2 / 3, rel=0.2)
        assert 0 < jnp.max(jnp.abs(bias)) <= bound
    assert jnp.max(jnp.abs(net.biases[0])) > 0.9 / 5
    assert [weight.shape for weight in net.weights] == [(25, 60), (60, 4)]


def test_layers_are_initialised_independently():
    net = mlp(KEY, (20, 20, 20))
    assert abs(np.corrcoef(net.weights[0].ravel(), net.weights[1].ravel())[0, 1]) < 0.15


def test_last_scale_scales_only_the_last_layer():
    full, small = mlp(KEY, (3, 5, 2)), mlp(KEY, (3, 5, 2), last_scale=1e-2)
    np.testing.assert_array_equal(small.weights[0], full.weights[0])
    np.testing.assert_allclose(small.weights[1], 1e-2 * full.weights[1], rtol=1e-6)


def test_can_be_the_carry_of_a_scan_of_gradient_steps():
    optimiser = optax.sgd(0.1)

    def loss(net, x):
        value = jnp.sum(net(x) ** 2)
        return value, {"loss": value}

    trained = new_trained(optimiser, mlp(KEY, (2, 4, 1)))
    _, metrics = jax.lax.scan(lambda t, x: gradient_step(optimiser, t, loss, x), trained, jnp.ones((20, 2)))
    assert metrics["loss"][-1] < 0.1 * metrics["loss"][0]

"""Gradient steps agree with updates computed by hand, and minibatches contain every row once."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from edl.nets.optim import gradient_step, minibatch_orders, new_trained, shuffled_orders

KEY = jax.random.key(0)


def bowl(params, scale):
    """scale * (x^2 + 3 y), with gradient (2 scale x, 3 scale)."""
    value = scale * (params["x"] ** 2 + 3.0 * params["y"])
    return value, {"loss": value}


def test_gradient_step_by_hand():
    optimiser = optax.sgd(0.1)
    trained = new_trained(optimiser, {"x": jnp.float32(2.0), "y": jnp.float32(1.0)})
    trained, metrics = gradient_step(optimiser, trained, bowl, 2.0)
    np.testing.assert_allclose(trained.params["x"], 2.0 - 0.1 * 8.0, rtol=1e-6)
    np.testing.assert_allclose(trained.params["y"], 1.0 - 0.1 * 6.0, rtol=1e-6)
    np.testing.assert_allclose(metrics["loss"], 14.0)  # at the parameters before the step


def test_gradient_step_carries_the_optimiser_state():
    optimiser = optax.sgd(0.1, momentum=0.5)
    trained = new_trained(optimiser, {"x": jnp.float32(0.0), "y": jnp.float32(0.0)})
    for _ in range(2):
        trained, _ = gradient_step(optimiser, trained, bowl, 1.0)
    np.testing.assert_allclose(trained.params["y"], -0.1 * (3.0 + 4.5), rtol=1e-6)


def test_gradient_step_is_the_body_of_a_scan():
    optimiser = optax.adam(0.1)
    trained = new_trained(optimiser, {"x": jnp.float32(2.0), "y": jnp.float32(0.0)})

    @jax.jit
    def run(trained):
        return jax.lax.scan(lambda trained, _: gradient_step(optimiser, trained, bowl, 1.0), trained, length=100)

    trained, metrics = run(trained)
    assert metrics["loss"].shape == (100,)
    np.testing.assert_allclose(trained.params["x"], 0.0, atol=0.1)


@pytest.mark.parametrize("size", [1, 2, 5, 64, 65, 5000])
def test_every_order_contains_every_row_once(size):
    orders = np.asarray(shuffled_orders(KEY, 3, size))
    assert orders.shape == (3, size)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(size), (3, 1)))


def test_every_order_contains_every_row_once_if_too_few_random_bits_remain(monkeypatch):
    monkeypatch.setattr("edl.nets.optim.MIN_RANDOM_BITS", 30)
    orders = np.asarray(shuffled_orders(KEY, 2, 9))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(9), (2, 1)))


def test_orders_differ_from_each_other_and_by_key():
    one, other = (np.asarray(shuffled_orders(jax.random.key(seed), 2, 100)) for seed in (0, 1))
    assert (one[0] != one[1]).any()
    assert (one != other).any()


def test_all_orders_of_three_rows_are_equally_likely():
    orders = np.asarray(shuffled_orders(KEY, 6000, 3))
    counts = np.unique(orders @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_all_positions_of_a_row_are_equally_likely():
    positions = np.argmax(np.asarray(shuffled_orders(KEY, 4000, 20)) == 0, axis=1)
    assert stats.chisquare(np.bincount(positions, minlength=20)).pvalue > 1e-3


def test_the_minibatches_of_an_epoch_are_disjoint_and_leave_out_the_remainder():
    orders = np.asarray(minibatch_orders(KEY, size=11, epochs=3, minibatches=4))
    assert orders.shape == (3 * 4, 2)
    for epoch in orders.reshape(3, 8):
        assert len(set(epoch)) == 8
        assert set(epoch) <= set(range(11))

"""Normalisers are invertible, and running moments equal the moments of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.nets.mlp import mlp
from edl.nets.normalise import (
    Normaliser,
    fit_normaliser,
    fold_normaliser,
    identity_normaliser,
    running_moments,
)


def test_fit_normaliser_gives_zero_mean_and_unit_variance(rng):
    x = jnp.asarray(rng.normal([5.0, -3.0, 0.0], [2.0, 0.1, 30.0], (500, 3)), jnp.float32)
    scaled = jax.vmap(fit_normaliser(x))(x)
    np.testing.assert_allclose(jnp.mean(scaled, axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(jnp.std(scaled, axis=0), 1.0, rtol=1e-5)


def test_inverse_restores_the_input(rng):
    x = jnp.asarray(rng.normal(7.0, 4.0, (50, 3)), jnp.float32)
    normaliser = fit_normaliser(x)
    np.testing.assert_allclose(jax.vmap(normaliser.inverse)(jax.vmap(normaliser)(x)), x, rtol=1e-5, atol=1e-5)


def test_a_constant_dimension_is_centred_and_keeps_its_scale():
    x = jnp.array([[2.0, 1.0], [2.0, 3.0]])
    np.testing.assert_allclose(jax.vmap(fit_normaliser(x))(x), [[0.0, -1.0], [0.0, 1.0]])


def test_identity_normaliser():
    np.testing.assert_array_equal(identity_normaliser(2)(jnp.array([3.0, -1.0])), [3.0, -1.0])


def test_a_folded_normaliser_is_applied_by_the_first_layer(rng):
    net = mlp(jax.random.key(0), (3, 6, 2), initialisation="fan_in")
    wide = Normaliser(jnp.array([1.0, -2.0, 0.5, 9.0]), jnp.array([2.0, 0.3, 1.0, 9.0]))  # one column too many
    x = jnp.asarray(rng.normal(size=3), jnp.float32)
    expected = net((x - wide.mean[:3]) / wide.scale[:3])
    np.testing.assert_allclose(fold_normaliser(net, wide)(x), expected, rtol=1e-4, atol=1e-5)


def test_running_moments_of_zero_rows_are_the_identity():
    empty = running_moments(2).update(jnp.full((4, 2), 9.0), jnp.zeros(4, bool))
    np.testing.assert_array_equal(empty.normaliser()(jnp.array([3.0, -1.0])), [3.0, -1.0])


@given(sizes=st.lists(st.sampled_from([1, 2, 7, 40]), min_size=1, max_size=5), seed=st.integers(0, 2**16))
def test_running_moments_agree_with_numpy_for_any_batches_and_masks(sizes, seed):
    rng = np.random.default_rng(seed)
    running, rows = running_moments(2), []
    for size in sizes:
        x = rng.normal([100.0, -3.0], [1.0, 5.0], (size, 2)).astype(np.float32)
        valid = rng.random(size) < 0.7
        running = UPDATE(running, jnp.asarray(np.where(valid[:, None], x, 1e4)), jnp.asarray(valid))
        rows.append(x[valid])
    expected = np.concatenate(rows).astype(np.float64)
    assert running.count == len(expected)
    if len(expected) < 2:
        return
    normaliser = running.normaliser()
    np.testing.assert_allclose(normaliser.mean, expected.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normaliser.scale, expected.std(axis=0), rtol=2e-3)


UPDATE = jax.jit(lambda running, x, valid: running.update(x, valid))


@pytest.fixture
def rng():
    return np.random.default_rng(0)

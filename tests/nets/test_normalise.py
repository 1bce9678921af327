"""Normalisers undo themselves, and running moments are those of everything seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.nets.normalise import identity, moments, running_moments


def test_moments_give_zero_mean_and_unit_variance(rng):
    x = jnp.asarray(rng.normal([5.0, -3.0, 0.0], [2.0, 0.1, 30.0], (500, 3)), jnp.float32)
    scaled = jax.vmap(moments(x))(x)
    np.testing.assert_allclose(jnp.mean(scaled, axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(jnp.std(scaled, axis=0), 1.0, rtol=1e-5)


def test_inverse_undoes(rng):
    x = jnp.asarray(rng.normal(7.0, 4.0, (50, 3)), jnp.float32)
    normaliser = moments(x)
    np.testing.assert_allclose(jax.vmap(normaliser.inverse)(jax.vmap(normaliser)(x)), x, rtol=1e-5, atol=1e-5)


def test_a_dimension_that_never_changes_is_centred_and_not_blown_up():
    x = jnp.array([[2.0, 1.0], [2.0, 3.0]])
    np.testing.assert_allclose(jax.vmap(moments(x))(x), [[0.0, -1.0], [0.0, 1.0]])


def test_identity_changes_nothing():
    np.testing.assert_array_equal(identity(2)(jnp.array([3.0, -1.0])), [3.0, -1.0])


def test_running_moments_of_nothing_are_the_identity():
    nothing = running_moments(2).update(jnp.full((4, 2), 9.0), jnp.zeros(4, bool))
    np.testing.assert_array_equal(nothing.normaliser()(jnp.array([3.0, -1.0])), [3.0, -1.0])


@given(sizes=st.lists(st.sampled_from([1, 2, 7, 40]), min_size=1, max_size=5), seed=st.integers(0, 2**16))
def test_running_moments_equal_numpy_over_any_batches_and_masks(sizes, seed):
    rng = np.random.default_rng(seed)
    running, seen = running_moments(2), []
    for size in sizes:
        x = rng.normal([100.0, -3.0], [1.0, 5.0], (size, 2)).astype(np.float32)
        valid = rng.random(size) < 0.7
        running = UPDATE(running, jnp.asarray(np.where(valid[:, None], x, 1e4)), jnp.asarray(valid))
        seen.append(x[valid])
    everything = np.concatenate(seen).astype(np.float64)
    assert running.count == len(everything)
    if len(everything) < 2:
        return
    normaliser = running.normaliser()
    np.testing.assert_allclose(normaliser.mean, everything.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normaliser.scale, everything.std(axis=0), rtol=2e-3)


UPDATE = jax.jit(lambda running, x, valid: running.update(x, valid))


@pytest.fixture
def rng():
    return np.random.default_rng(0)

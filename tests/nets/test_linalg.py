"""Squared distances agree with numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.nets.linalg import exact_matmul, squared_distances

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("size", [1, 2, 29])
def test_squared_distances_agree_with_numpy(size):
    x, points = (jnp.asarray(GENERATOR.normal(size=shape), jnp.float32) for shape in ((4, size), (7, size)))
    expected = np.sum((np.asarray(x, np.float64)[:, None] - np.asarray(points)) ** 2, axis=-1)
    np.testing.assert_allclose(jax.vmap(squared_distances, (0, None))(x, points), expected, rtol=1e-5)


def test_exact_matmul_asks_for_full_precision():
    x, y = (jnp.asarray(GENERATOR.normal(size=shape), jnp.float32) for shape in ((3, 4), (4, 2)))
    np.testing.assert_allclose(exact_matmul(x, y), np.asarray(x) @ np.asarray(y), rtol=1e-5)
    assert "HIGHEST" in str(jax.make_jaxpr(exact_matmul)(x, y))

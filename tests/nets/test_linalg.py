"""Squared distances agree with numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.nets.linalg import exact_matmul, mean_nearest, squared_distances

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


def test_more_neighbours_than_points_are_rejected():
    points = jnp.asarray([[0.0], [3.0], [5.0]])
    assert float(mean_nearest(jnp.zeros(1), points, jnp.ones(3, bool), 3)) == pytest.approx(8 / 3)
    message = r"neighbours must be at most the number of points .*\(got 4 neighbours and 3 points\)"
    with pytest.raises(ConfigError, match=message):
        mean_nearest(jnp.zeros(1), points, jnp.ones(3, bool), 4)

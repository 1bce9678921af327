"""The co-occurrence product equals the plain product of all columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.graph.cooccurrence import cooccurrence
from tests.compiling import jit


@pytest.mark.parametrize("count", [0, 1, 8, 9, 17, 32, 33])
def test_cooccurrence_equals_the_product_of_all_columns_alone_and_in_batches(count):
    rows = np.random.default_rng(count).uniform(size=(3, 20, 33)) < 0.2
    rows = (rows & (np.arange(33) < count)).astype(np.float32)
    expected = np.swapaxes(rows, 1, 2) @ rows
    np.testing.assert_array_equal(jit(cooccurrence)(rows[0], jnp.int32(count)), expected[0])
    counts = jnp.array([max(count - 1, 0), count, 0])
    rows[0, :, count - 1 :], rows[2] = 0.0, 0.0
    batch = jit(jax.vmap(cooccurrence))(rows, counts)
    np.testing.assert_array_equal(batch, np.swapaxes(rows, 1, 2) @ rows)
    shared = jit(jax.vmap(cooccurrence, (None, 0)))(rows[1], jnp.array([count, count]))
    np.testing.assert_array_equal(shared, [expected[1]] * 2)

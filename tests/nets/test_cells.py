"""Cells have rows of a hash table, with few collisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.nets.cells import TABLE_SIZE, cell_of, hash_row


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_cells_are_rows_of_the_table_in_any_number_of_dimensions(size):
    points = np.random.default_rng(0).uniform(-1000, 1000, (3000, size)).astype(np.float32)
    rows = np.asarray(jax.vmap(lambda s: cell_of(s, 1.0))(points))
    assert rows.min() >= 0
    assert rows.max() < TABLE_SIZE
    distinct = len(np.unique(np.floor(points), axis=0))
    assert len(np.unique(rows)) > 0.97 * distinct  # few collisions


def test_neighbouring_cells_have_different_rows_on_both_sides_of_zero():
    x, y = np.meshgrid(np.arange(-50, 50), np.arange(-50, 50))
    centres = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) + 0.5
    rows = np.asarray(jax.vmap(lambda s: cell_of(0.1 * s, 0.1))(centres))
    assert len(np.unique(rows)) > 0.97 * len(rows)
    again = np.asarray(jax.vmap(lambda s: cell_of(0.1 * s, 0.1))(centres + 0.3))
    np.testing.assert_array_equal(rows, again)


def test_rows_of_a_table_are_the_low_bits_of_a_larger_one():
    corners = jnp.asarray(np.random.default_rng(0).integers(-1000, 1000, (500, 3)))
    large = jax.vmap(lambda corner: hash_row(corner, 2**30))(corners)
    np.testing.assert_array_equal(jax.vmap(hash_row)(corners), large & (TABLE_SIZE - 1))
    few = jax.vmap(lambda corner: hash_row(corner, 1000))(corners)
    assert 0 <= few.min() <= few.max() < 1000

"""Orders hold every row once, differ, and put any row anywhere equally often."""

import jax
import numpy as np
import pytest
from scipy import stats

from edl.rl.shuffle import shuffles

KEY = jax.random.key(0)


@pytest.mark.parametrize("size", [1, 2, 5, 64, 65, 5000])
def test_every_row_is_in_every_order_once(size):
    orders = np.asarray(shuffles(KEY, 3, size))
    assert orders.shape == (3, size)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(size), (3, 1)))


def test_so_it_is_where_no_bits_are_left_to_sort_by(monkeypatch):
    monkeypatch.setattr("edl.rl.shuffle.RANDOM_BITS", 30)
    orders = np.asarray(shuffles(KEY, 2, 9))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(9), (2, 1)))


def test_orders_differ_from_each_other_and_by_key():
    one, other = (np.asarray(shuffles(jax.random.key(seed), 2, 100)) for seed in (0, 1))
    assert (one[0] != one[1]).any()
    assert (one != other).any()


def test_all_orders_of_three_rows_are_equally_likely():
    orders = np.asarray(shuffles(KEY, 6000, 3))
    counts = np.unique(orders @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_row_goes_anywhere():
    places = np.argmax(np.asarray(shuffles(KEY, 4000, 20)) == 0, axis=1)
    assert stats.chisquare(np.bincount(places, minlength=20)).pvalue > 1e-3

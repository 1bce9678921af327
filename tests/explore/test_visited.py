"""The visited set: points are drawn uniformly by volume and not by visits, in fixed memory and in any unit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.explore.beyond import BeyondConfig
from edl.explore.hindsight import HindsightConfig
from edl.explore.visited import (
    CellSet,
    ParticleSet,
    centre_and_distance,
    empty_cells,
    empty_particles,
    empty_set,
    unit_of_spread,
)

KEYS = jax.random.split(jax.random.key(0), 8)
ONES = jnp.ones(2)
ADD = jax.jit(lambda visited, key, states, valid: visited.add(key, states, valid))
DRAW = jax.jit(jax.vmap(lambda visited, key: visited.draw(key), (None, 0)))


def add(visited, states, key=KEYS[0]):
    states = jnp.asarray(states, jnp.float32)
    return ADD(visited, key, states, jnp.ones(len(states), bool))


def cells_of(visited):
    return {tuple(corner) for corner in np.asarray(visited.corners[: visited.count])}


def test_visited_cells_are_stored_once():
    one = add(empty_cells(ONES, 0.5, 8, 2), [[0.1, 0.1], [0.2, 0.4], [-0.1, 0.9], [0.1, 0.1]])
    assert cells_of(one) == {(0, 0), (-1, 1)}
    two = add(one, [[0.3, 0.3], [1.2, 0.0]])
    assert cells_of(two) == {(0, 0), (-1, 1), (2, 0)}
    assert (two.size, two.side) == (3, 0.5)


def test_cells_are_in_units():
    visited = add(empty_cells(jnp.array([1.0, 10.0]), 0.5, 8, 2), [[0.6, 0.6], [0.6, 6.0]])
    assert cells_of(visited) == {(1, 0), (1, 1)}


def test_invalid_and_infinite_states_are_no_visits():
    states = jnp.array([[1.0, 1.0], [2.0, 2.0], [jnp.nan, 0.0], [jnp.inf, 0.0]])
    visited = ADD(empty_cells(ONES, 1.0, 8, 2), KEYS[0], states, jnp.array([True, False, True, True]))
    assert cells_of(visited) == {(1, 1)}
    particles = ADD(empty_particles(ONES, 8, 2), KEYS[0], states, jnp.array([True, False, True, True]))
    assert particles.size == 1
    np.testing.assert_array_equal(particles.states[0], [1, 1])


def test_points_are_uniform_over_cells_and_within_cells():
    often, rarely = np.full((500, 2), 0.5), np.array([[1.5, 0.5], [4.5, 2.5], [-3.5, 0.5]])
    visited = add(empty_cells(ONES, 1.0, 16, 2), np.concatenate([often, rarely]))
    points = np.asarray(DRAW(visited, jax.random.split(KEYS[1], 4000)))
    cells, counts = np.unique(np.floor(points), axis=0, return_counts=True)
    assert {tuple(cell) for cell in cells.astype(int)} == cells_of(visited)
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.04)
    np.testing.assert_allclose((points - np.floor(points)).mean(axis=0), 0.5, atol=0.03)


def test_the_side_doubles_until_the_cells_fit():
    states = np.arange(-8.0, 8.0)[:, None] + 0.5
    visited = add(empty_cells(jnp.ones(1), 1.0, 5, 2), states)
    assert visited.side == 4.0
    assert cells_of(visited) == {(-2,), (-1,), (0,), (1,)}
    more = add(visited, [[9.0], [-9.0]])
    assert more.side == 8.0
    assert cells_of(more) == {(-2,), (-1,), (0,), (1,)}
    stored, weights = more.visited()
    real = np.asarray(stored)[np.asarray(weights) > 0]
    assert set(np.floor(real[:, 0] / 8.0)) == {-2, -1, 0, 1}
    assert set(real[:, 0]) <= {*states[:, 0], 9.0, -9.0}


def test_every_cell_keeps_its_last_states_and_has_the_same_weight():
    visited = empty_cells(jnp.ones(1), 1.0, 4, 2)
    for key, batch in zip(KEYS, ([0.1, 2.5], [0.2], [0.3, 0.4]), strict=False):
        visited = add(visited, np.array(batch)[:, None], key)
    states, weights = visited.visited()
    found = {round(float(s), 3): float(w) for s, w in zip(states[:, 0], weights, strict=True) if w > 0}
    assert found == {0.3: 0.5, 0.4: 0.5, 2.5: 1.0}


def test_of_many_new_states_a_cell_keeps_a_random_choice():
    def kept(key):
        visited = empty_cells(jnp.ones(1), 1.0, 4, 2).add(key, jnp.linspace(0, 0.9, 10)[:, None], jnp.ones(10, bool))
        return visited.states[0, :, 0]

    values = np.asarray(jax.jit(jax.vmap(kept))(jax.random.split(KEYS[0], 500)))
    assert (values[:, 0] != values[:, 1]).all()
    np.testing.assert_allclose(np.histogram(values, 10, (-0.05, 0.95))[0] / 1000, 0.1, atol=0.04)


def test_spread_is_the_median_distance_from_the_centre():
    assert add(empty_cells(ONES, 2.0, 8, 1), [[1.0, 1.0]]).spread == pytest.approx(2 / 12**0.5)
    square = np.array([[0, 0], [6, 0], [0, 8], [6, 8]]) + 0.5
    assert add(empty_cells(ONES, 1.0, 8, 1), square).spread == pytest.approx((25 + 1 / 12) ** 0.5)
    assert add(empty_particles(ONES, 8, 2), square).spread == pytest.approx(5.0)


@pytest.mark.parametrize("empty", [empty_cells(2 * ONES, 0.5, 8, 1), empty_particles(2 * ONES, 8, 2)])
def test_the_centre_is_in_the_coordinates_of_the_env(empty):
    square = np.array([[0, 0], [6, 0], [0, 8], [6, 8]]) + 0.5
    np.testing.assert_allclose(add(empty, square).centre, [3.5, 4.5], rtol=1e-6)


def test_an_outlier_hardly_changes_the_spread():
    disc = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    disc = np.concatenate([disc[(disc**2).sum(axis=1) < 1], np.full((1, 2), 1e4)])
    real = jnp.arange(len(disc) + 5) < len(disc)
    padded = jnp.asarray(np.concatenate([disc, np.full((5, 2), 7.0)]), jnp.float32)
    centre, distance = centre_and_distance(padded, real)
    np.testing.assert_allclose(centre, 0.0, atol=0.05)
    assert distance == pytest.approx(0.5**0.5, abs=0.03)


@pytest.mark.parametrize("size", [2, 6])
def test_a_set_scales_with_the_coordinates(size):
    """The law that nothing depends on the units of an env."""
    states = np.random.default_rng(0).normal(size=(300, size)).astype(np.float32)

    def visited(states):
        valid = jnp.ones(300, bool)
        unit = unit_of_spread(jnp.asarray(states), valid)
        empty = empty_cells(unit, 0.25, 64, 2) if size == 2 else empty_particles(unit, 64, 3)
        return ADD(empty, KEYS[0], jnp.asarray(states), valid)

    small, large = visited(states), visited(100 * states)
    assert small.size == large.size == (small.size if size == 2 else 64)
    assert large.spread == pytest.approx(float(small.spread), rel=1e-4)  # in units
    np.testing.assert_allclose(large.unit, 100 * small.unit, rtol=1e-4)
    np.testing.assert_allclose(DRAW(large, KEYS), 100 * DRAW(small, KEYS), rtol=1e-3, atol=1e-3)


def test_units_are_standard_deviations():
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 3.0, 2.0] + 50.0
    valid = jnp.arange(500) < 400
    similar = unit_of_spread(jnp.asarray(x, jnp.float32).at[400:].set(jnp.nan), valid)
    np.testing.assert_allclose(similar, np.sqrt(np.mean(x[:400].var(axis=0))), rtol=1e-3)
    different = unit_of_spread(jnp.asarray(x * [1.0, 100.0, 0.0], jnp.float32), valid)
    deviations = x[:400].std(axis=0)
    np.testing.assert_allclose(different, [deviations[0], 100 * deviations[1], 100 * deviations[1]], rtol=1e-3)


def test_particles_are_uniform_although_visits_are_not():
    """Two segments in six dimensions; one of them is visited 50 times as often."""
    visited = empty_particles(jnp.ones(6), 64, 4)
    generator = np.random.default_rng(0)
    for key in jax.random.split(KEYS[1], 60):
        place = generator.uniform(size=(510, 1)) * [[1, 1, 0, 0, 0, 0]]
        place[::51, 3] += 5.0
        visited = add(visited, place, key)
    rare = np.asarray(visited.states)[:, 3] > 2.5
    assert 0.3 < rare.mean() < 0.7
    points = np.asarray(DRAW(visited, jax.random.split(KEYS[2], 2000)))
    assert {tuple(p) for p in points} == {tuple(p) for p in np.asarray(visited.states)}
    np.testing.assert_allclose((points[:, 3] > 2.5).mean(), rare.mean(), atol=0.05)


def test_few_particles_are_all_kept():
    states = np.random.default_rng(0).normal(size=(5, 6))
    visited = add(empty_particles(jnp.ones(6), 16, 8), states)
    assert visited.size == 5
    stored, weights = visited.visited()
    np.testing.assert_array_equal(weights, [1] * 5 + [0] * 11)
    np.testing.assert_allclose(np.sort(stored[:5], axis=0), np.sort(states, axis=0), rtol=1e-6)


@pytest.mark.parametrize("config", [BeyondConfig, HindsightConfig])
def test_the_kind_of_set_depends_on_the_number_of_features(config):
    assert isinstance(empty_set(jnp.ones(4), config(cells=16)), CellSet)
    assert isinstance(empty_set(jnp.ones(5), config(cells=16)), ParticleSet)
    with pytest.raises(ConfigError, match=r"cells must be at least 8 for 3 features \(got 7\)"):
        empty_set(jnp.ones(3), config(cells=7))

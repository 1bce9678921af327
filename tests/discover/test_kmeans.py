"""k-means against SciPy, and its pieces by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster.vq import kmeans2

from edl.artifacts import States
from edl.discover.kmeans import (
    KMeansConfig,
    best_restart,
    kmeans,
    kmeans_plus_plus,
    lloyd,
    quantisation_error,
    seed_centroids,
)
from edl.program import run_program

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0], [5.0, 20.0]])


@pytest.fixture(scope="module")
def blobs():
    """Five clusters of unequal size, far apart."""
    rng = np.random.default_rng(0)
    clusters = [rng.normal(centre, 0.5, (40 * (i + 1), 2)) for i, centre in enumerate(CENTRES)]
    return jnp.asarray(np.concatenate(clusters), jnp.float32)


def in_order(x):
    x = np.asarray(x)
    return x[np.lexsort(x.T.round())]


def test_separated_blobs_agree_with_scipy(blobs):
    config = KMeansConfig(num_skills=5, snap_goals=False)
    skills, metrics = jax.jit(lambda key: run_program(kmeans(States(blobs), config), key))(jax.random.key(0))
    theirs, _ = kmeans2(np.asarray(blobs, np.float64), CENTRES)
    np.testing.assert_allclose(in_order(skills.goals), in_order(theirs), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.sort(skills.usage), np.arange(1, 6) / 15, rtol=1e-5)
    assert metrics["done"][-1] == 1
    assert np.all(np.diff(metrics["loss"]) <= 1e-6)


def test_initial_centroids_fall_into_different_blobs(blobs):
    initial = seed_centroids(jax.random.key(1), blobs, 5, restarts=50)
    blob = np.argmin(np.linalg.norm(np.asarray(initial)[:, :, None] - CENTRES, axis=-1), axis=-1)
    assert np.mean([len(set(row)) for row in blob]) > 4.5


def test_initial_centroids_are_drawn_in_proportion_to_squared_distance():
    x = jnp.array([[0.0], [1.0], [3.0]])
    draws = jax.random.exponential(jax.random.key(0), (4000, 2, 3))
    first, second = jax.vmap(kmeans_plus_plus, in_axes=(0, None))(draws, x)[..., 0].T
    np.testing.assert_allclose([np.mean(first == value) for value in (0, 1, 3)], 1 / 3, atol=0.03)
    np.testing.assert_allclose(np.mean(second[first == 0] == 3), 9 / 10, atol=0.03)
    np.testing.assert_allclose(np.mean(second[first == 1] == 3), 4 / 5, atol=0.03)
    assert not np.any(first == second)


def test_a_lloyd_step_by_hand():
    x = jnp.array([[0.0], [1.0], [5.0], [9.0]])
    np.testing.assert_allclose(lloyd(x, jnp.array([[0.0], [6.0]]), 1), [[0.5], [7.0]])
    # A centroid without samples stays.
    np.testing.assert_allclose(lloyd(x, jnp.array([[4.0], [-50.0]]), 1), [[3.75], [-50.0]])


def test_the_best_restart_has_the_smallest_error():
    x = jnp.array([[0.0], [2.0], [10.0]])
    good, bad = jnp.array([[1.0], [10.0]]), jnp.array([[0.0], [6.0]])
    np.testing.assert_allclose(quantisation_error(x, good), 2 / 3, rtol=1e-6)
    np.testing.assert_array_equal(best_restart(x, jnp.stack([bad, good])), good)


def test_codes_are_the_normalised_goals(blobs):
    config = KMeansConfig(num_skills=5, lloyd_steps=20)
    skills, _ = jax.jit(lambda key: run_program(kmeans(States(blobs), config), key))(jax.random.key(0))
    np.testing.assert_allclose(jax.vmap(skills.encode)(skills.decoded), skills.codes, atol=1e-5)
    assert np.all((np.asarray(skills.goals)[:, None] == np.asarray(blobs)).all(axis=-1).any(axis=-1))

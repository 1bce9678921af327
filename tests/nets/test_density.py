"""Densities agree with SciPy, with numpy, and with values computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.special import gamma
from scipy.stats import gaussian_kde

from edl.config import ConfigError
from edl.nets.density import DENSITIES, fit_histogram, fit_kde, fit_knn

KEY = jax.random.key(0)
GENERATOR = np.random.default_rng(0)
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [0.0, -0.3, 2.0]])


def sample(n, size):
    return (GENERATOR.normal(size=(n, size)) @ MIX[:size, :size]).astype(np.float32)


def log_probs(fit, states, queries, weights=None, **options):
    """Fit and evaluate in one program, as explorers do."""

    @jax.jit
    def run(states, weights, queries):
        return jax.vmap(fit(KEY, states, weights, **options).log_prob)(queries)

    return np.asarray(run(jnp.asarray(states), weights, jnp.asarray(queries, jnp.float32)))


@pytest.mark.parametrize(("size", "weighted", "bandwidth"), [(1, True, None), (2, False, None), (3, True, 0.2)])
def test_kde_agrees_with_scipy(size, weighted, bandwidth):
    states, queries = sample(200, size), sample(50, size)
    weights = GENERATOR.uniform(0, 1, 200).astype(np.float32) if weighted else None
    theirs = gaussian_kde(states.T, bw_method=bandwidth, weights=weights)
    ours = log_probs(fit_kde, states, queries, weights, bandwidth=bandwidth)
    np.testing.assert_allclose(ours, theirs.logpdf(queries.T), rtol=2e-3, atol=2e-3)


def test_kde_is_finite_far_away_and_for_identical_samples():
    far = log_probs(fit_kde, sample(100, 2), np.full((1, 2), 1e3))
    assert np.isfinite(far).all()
    assert far < -1e3
    assert np.isfinite(log_probs(fit_kde, np.ones((10, 2), np.float32), np.ones((1, 2)))).all()


@pytest.mark.parametrize("size", [1, 3])
def test_knn_agrees_with_a_kd_tree(size):
    states, queries, k = sample(300, size), sample(40, size), 5
    radius = cKDTree(states).query(queries, k)[0][:, -1]
    ball = np.pi ** (size / 2) / gamma(size / 2 + 1) * radius**size
    ours = log_probs(fit_knn, states, queries, neighbours=k)
    np.testing.assert_allclose(ours, np.log(k / 300 / ball), rtol=1e-4, atol=1e-4)


def test_knn_uses_the_mass_of_the_neighbours():
    states, weights = jnp.array([[0.0], [1.0], [3.0], [1.5]]), jnp.array([1.0, 2.0, 5.0, 0.0])
    # The padding at 1.5 is not a neighbour. The neighbours of 1.2 are 1 and 0, so the ball has length 2 * 1.2.
    found = log_probs(fit_knn, states, [[1.2]], weights, neighbours=2)
    np.testing.assert_allclose(found, np.log(3 / 8 / 2.4), rtol=1e-5)


@pytest.mark.parametrize("size", [1, 3])
def test_histogram_agrees_with_numpy(size):
    states, bins = sample(500, size), 4
    weights = GENERATOR.uniform(0, 1, 500).astype(np.float32)
    expected, edges = np.histogramdd(states, bins, density=True, weights=weights)
    centres = np.meshgrid(*[(edge[1:] + edge[:-1]) / 2 for edge in edges], indexing="ij")
    queries = np.stack([each.ravel() for each in centres], axis=1)
    found = np.exp(log_probs(fit_histogram, states, queries, weights, bins=bins))
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-3, atol=1e-5)


def test_histogram_by_hand():
    states, queries = np.float32([[0], [1], [1.2], [4]]), [[0.5], [1.5], [2.5], [4.0], [4.1], [-0.1]]
    found = np.exp(log_probs(fit_histogram, states, queries, bins=4))
    np.testing.assert_allclose(found, [1 / 4, 2 / 4, 0, 1 / 4, 0, 0], atol=1e-6)


def test_histogram_rejects_many_dimensions():
    with pytest.raises(
        ConfigError, match=r"at most 1048576 bins \(got 32 bins in each of 5 dimensions\)\. Use .*'kde'"
    ):
        fit_histogram(KEY, jnp.zeros((3, 5)))


@pytest.mark.parametrize("name", DENSITIES)
def test_states_of_weight_zero_have_no_effect(name):
    states, queries = sample(60, 2), sample(20, 2)
    padded, weights = np.concatenate([states, np.full((40, 2), 50, np.float32)]), np.float32(np.arange(100) < 60)
    unpadded = log_probs(DENSITIES[name], states, queries)
    np.testing.assert_allclose(log_probs(DENSITIES[name], padded, queries, weights), unpadded, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["histogram", "kde"])
def test_integrates_to_one(name):
    axis = np.linspace(-8, 8, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    total = np.sum(np.exp(log_probs(DENSITIES[name], sample(100, 2), grid))) * (axis[1] - axis[0]) ** 2
    assert total == pytest.approx(1, abs=0.05)

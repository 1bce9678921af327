import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from edl.evaluate.information import entropy, mutual_information, mutual_informations
from edl.nets.quantiser import perplexity


@pytest.mark.parametrize("skills", [2, 10])
def test_separated_skills_have_log_k_nats(skills):
    counts = np.repeat(np.eye(skills, dtype=int), 3, axis=1) * 7
    assert mutual_information(counts) == pytest.approx(np.log(skills))
    assert mutual_information(counts) <= np.log(skills)


def test_identical_skills_have_no_information():
    counts = np.tile(np.array([5, 0, 2, 9]), (10, 1))
    assert mutual_information(counts) == pytest.approx(0.0, abs=1e-12)


def test_information_by_hand():
    # p(s,z) = [[1/2, 0], [1/4, 1/4]]: p(z) = (1/2, 1/2), p(s) = (3/4, 1/4).
    expected = 0.5 * np.log(4 / 3) + 0.25 * np.log(2 / 3) + 0.25 * np.log(2)
    assert mutual_information(np.array([[2, 0], [1, 1]])) == pytest.approx(expected)


@pytest.mark.parametrize("shared", [1, 10, 25])
def test_a_shared_corridor_costs_its_share_of_the_states(shared):
    # Ten skills walk through ``shared`` cells of one corridor, one state per cell, and then stay in cells of their own.
    skills, states = 10, 50
    corridor, own = np.ones((skills, shared), int), (states - shared) * np.eye(skills, dtype=int)
    everywhere, last = np.concatenate([corridor, own], axis=1), np.eye(skills, dtype=int)
    assert mutual_information(everywhere) == pytest.approx((1 - shared / states) * np.log(skills))
    assert mutual_information(last) == pytest.approx(np.log(skills))  # however far the skills go


def test_many_tables_at_once():
    counts = np.random.default_rng(1).integers(0, 5, size=(7, 4, 6)).astype(float)
    np.testing.assert_allclose(mutual_informations(counts), [mutual_information(each) for each in counts])


def test_information_is_symmetric_in_its_arguments():
    counts = np.random.default_rng(0).integers(0, 20, size=(4, 6))
    assert mutual_information(counts) == pytest.approx(mutual_information(counts.T))


def test_entropy_against_scipy():
    counts = np.array([3, 0, 1, 12])
    assert entropy(counts) == pytest.approx(scipy.stats.entropy(counts))


@pytest.mark.parametrize(("counts", "expected"), [([4, 4, 0, 4], 3.0), ([0, 1], 1.0)])
def test_perplexity_is_the_exponential_of_the_entropy(counts, expected):
    weights = np.array(counts)
    assert np.exp(entropy(weights)) == pytest.approx(expected)
    assert float(perplexity(jnp.asarray(weights / weights.sum()))) == pytest.approx(expected, rel=1e-5)

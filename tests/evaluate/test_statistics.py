import numpy as np
import pytest
import scipy.stats

from edl.evaluate.statistics import (
    aggregate,
    bootstrap,
    cliffs_delta,
    delta_interval,
    difference_interval,
    improvement_interval,
    iqm,
    mean,
    probability_of_improvement,
)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 10, 11])
def test_iqm_equals_the_trimmed_mean_of_scipy(n):
    scores = np.random.default_rng(n).exponential(size=(3, n))
    np.testing.assert_allclose(iqm(scores), scipy.stats.trim_mean(scores, 0.25, axis=-1), rtol=1e-12)


def test_iqm_ignores_the_lowest_and_the_highest_quarter():
    assert iqm(np.array([100.0, 1.0, 2.0, -100.0])) == 1.5


@pytest.mark.parametrize("statistic", [mean, iqm])
def test_interval_agrees_with_scipy(statistic):
    scores = np.random.default_rng(1).gamma(2.0, size=20)
    reference = scipy.stats.bootstrap(
        (scores,), lambda x, axis: statistic(x), method="percentile", n_resamples=20_000, rng=2, vectorized=True
    ).confidence_interval
    low, high = bootstrap([scores], statistic, resamples=20_000)
    np.testing.assert_allclose([low, high], [reference.low, reference.high], atol=0.02)


def test_interval_narrows_with_level_and_is_reproducible():
    scores = np.random.default_rng(0).normal(size=10)
    wide, narrow = bootstrap([scores]), bootstrap([scores], level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert bootstrap([scores]) == wide
    assert bootstrap([scores], seed=1) != wide


def test_strata_are_resampled_separately():
    """Two tasks of different scale without variance inside each: only a bootstrap across tasks would have variance."""
    assert bootstrap([[0.0, 0.0, 0.0], [10.0, 10.0, 10.0]]) == (5.0, 5.0)


def test_probability_of_improvement_by_hand():
    # Pairs: 3>1, 3>2, 2>1, and 2=2 which counts half: 3.5 of 4.
    assert probability_of_improvement([[3.0, 2.0]], [[1.0, 2.0]]) == 0.875
    # The second task is always lost.
    assert probability_of_improvement([[3.0, 2.0], [0.0]], [[1.0, 2.0], [1.0]]) == 0.4375


def test_probability_of_improvement_is_the_mann_whitney_statistic():
    generator = np.random.default_rng(0)
    x, y = generator.normal(0.5, size=12), generator.normal(size=9)
    expected = scipy.stats.mannwhitneyu(x, y).statistic / (12 * 9)
    np.testing.assert_allclose(probability_of_improvement([x], [y]), expected)
    low, high = improvement_interval([x], [y])
    assert 0.0 <= low < expected < high <= 1.0
    assert improvement_interval([x + 100], [y]) == (1.0, 1.0)


def test_cliffs_delta_by_hand():
    # Of the six pairs, x is greater in four, equal in one, and less in one.
    assert cliffs_delta([1.0, 2.0, 3.0], [2.0, 0.0]) == pytest.approx(3 / 6)
    assert cliffs_delta([0.0, 1.0], [2.0, 3.0]) == -1.0
    assert delta_interval([2.0, 3.0], [0.0, 1.0]) == (1.0, 1.0)
    low, high = delta_interval([1.0, 2.0, 3.0], [2.0, 0.0])
    assert -1.0 <= low < 0.5 < high <= 1.0


def test_interval_of_a_difference_resamples_both_sides():
    # Each mean is 0, 1/2 or 1 with probabilities 1/4, 1/2 and 1/4: the difference is -1 or 1 in 1/16 of the resamples.
    assert difference_interval([0.0, 1.0], [0.0, 1.0]) == (-1.0, 1.0)
    assert difference_interval([3.0, 3.0], [1.0]) == (2.0, 2.0)
    generator = np.random.default_rng(0)
    x, y = generator.normal(1.0, size=400), generator.normal(size=400)
    low, high = difference_interval(x, y)
    error = np.sqrt((x.var() + y.var()) / 400)
    np.testing.assert_allclose([low, high], x.mean() - y.mean() + np.array([-1.96, 1.96]) * error, atol=0.2 * error)


def test_aggregate_by_hand():
    per_seed = [
        {"seed": i, "goal_success": value, "data_coverage": None} for i, value in enumerate([0.0, 1.0, 1.0, 1.0])
    ]
    result = aggregate(per_seed)
    assert set(result) == {"goal_success", "data_coverage"}
    assert result["data_coverage"] is None
    success = result["goal_success"]
    assert success["mean"] == 0.75
    assert success["iqm"] == 1.0
    # Zeros in a resample are Binomial(4, 1/4): 5.1 % of the means are 0.25 or less, and 0.4 % are less.
    assert success["ci95"] == [0.25, 1.0]


def test_aggregate_of_some_nulls_and_of_one_seed():
    result = aggregate([{"a": 2.0, "b": None}, {"a": None, "b": None}])
    assert result == {"a": {"mean": 2.0, "iqm": 2.0, "ci95": [2.0, 2.0], "iqm_ci95": [2.0, 2.0]}, "b": None}
    assert aggregate([]) == {}

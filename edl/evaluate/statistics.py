"""Statistics over few seeds: interquartile means, bootstrap intervals, the probability that one method beats another.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021. If scores come
from several tasks, each task is a stratum that is resampled separately. The bootstrap uses a fixed seed, so results are
reproducible.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from edl.evaluate.metrics import NOT_METRICS

Scores = Sequence[float] | Float[np.ndarray, " _"]
Statistic = Callable[[Float[np.ndarray, "*b n"]], Float[np.ndarray, "*b"]]

RESAMPLES = 9999


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def mean(scores: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b"]:
    """Mean over the last axis."""
    return np.asarray(np.mean(scores, axis=-1))


def iqm(scores: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b"]:
    """Interquartile mean over the last axis: the mean without the lowest and the highest quarter."""
    scores = np.sort(np.asarray(scores, float), axis=-1)
    cut = scores.shape[-1] // 4
    return mean(scores[..., cut : scores.shape[-1] - cut])


def bootstrap(
    strata: Sequence[Scores],
    statistic: Statistic = mean,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic of all scores pooled; ``strata`` has one entry per task."""
    generator = np.random.default_rng(seed)
    pooled = np.concatenate([_resample(generator, scores, resamples) for scores in strata], axis=-1)
    return _percentiles(statistic(pooled), level)


def probability_of_improvement(x: Sequence[Scores], y: Sequence[Scores]) -> float:
    """P(X > Y) + P(X = Y) / 2 for one run of X and one of Y on the same task, averaged over tasks."""
    return float(np.mean([_improvement(np.asarray(a, float), np.asarray(b, float)) for a, b in zip(x, y, strict=True)]))


def improvement_interval(
    x: Sequence[Scores], y: Sequence[Scores], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of `probability_of_improvement`; both sides are resampled, task by task."""
    generator = np.random.default_rng(seed)
    per_task = [
        _improvement(_resample(generator, a, resamples), _resample(generator, b, resamples))
        for a, b in zip(x, y, strict=True)
    ]
    return _percentiles(np.mean(per_task, axis=0), level)


def difference_interval(
    x: Scores, y: Scores, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of mean(x) - mean(y); both sides are resampled independently."""
    generator = np.random.default_rng(seed)
    first, second = (mean(_resample(generator, scores, resamples)) for scores in (x, y))
    return _percentiles(first - second, level)


def cliffs_delta(x: Scores, y: Scores) -> float:
    """P(X > Y) - P(X < Y), from -1 (every x is below every y) to 1: an effect size without a unit (Cliff, 1993)."""
    return 2 * probability_of_improvement([x], [y]) - 1


def delta_interval(x: Scores, y: Scores, *, level: float = 0.95) -> Interval:
    """Percentile bootstrap interval of `cliffs_delta`."""
    low, high = improvement_interval([x], [y], level=level)
    return Interval(2 * low - 1, 2 * high - 1)


def aggregate(per_seed: Sequence[Mapping[str, Any]]) -> dict[str, dict | None]:
    """Mean and IQM of every metric over seeds, with 95 % intervals.

    Seeds where the metric is None are left out; a metric that is None for all seeds is None here.
    """
    names = dict.fromkeys(name for metrics in per_seed for name in metrics if name not in NOT_METRICS)
    return {name: _summary([metrics.get(name) for metrics in per_seed]) for name in names}


def _summary(values: Sequence[float | None]) -> dict | None:
    scores = np.array([value for value in values if value is not None], float)
    if not len(scores):
        return None
    return {
        "mean": float(mean(scores)),
        "iqm": float(iqm(scores)),
        "ci95": list(bootstrap([scores])),
        "iqm_ci95": list(bootstrap([scores], iqm)),
    }


def _resample(generator: np.random.Generator, scores: Scores, resamples: int) -> Float[np.ndarray, "b n"]:
    scores = np.asarray(scores, float)
    return scores[generator.integers(len(scores), size=(resamples, len(scores)))]


def _improvement(x: Float[np.ndarray, "*b n"], y: Float[np.ndarray, "*b m"]) -> Float[np.ndarray, "*b"]:
    x, y = x[..., :, None], y[..., None, :]
    return np.asarray(np.mean((x > y) + 0.5 * (x == y), axis=(-2, -1)))


def _percentiles(draws: Float[np.ndarray, " b"], level: float) -> Interval:
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(draws, [tail, 100.0 - tail])
    return Interval(float(low), float(high))

"""Verdicts: whether a claim of the paper holds in our numbers, decided by a fixed rule.

With several seeds, a claim holds if the 95 % bootstrap interval excludes the opposite. With one seed, the rule compares
the numbers directly, and the verdict states that there is one seed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from edl.evaluate.statistics import bootstrap, improvement_interval, probability_of_improvement

Values = Sequence[float]


class Verdict(NamedTuple):
    """A claim in one sentence, what was measured, whether the claim holds, and the number of seeds."""

    claim: str
    measured: str
    holds: bool
    seeds: int

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Scores(NamedTuple):
    """One number per seed, and the name of what was scored."""

    label: str
    values: Values

    def __str__(self) -> str:
        return f"{self.label} {summary(self.values)}"


def better(claim: str, what: str, ours: Scores, theirs: Scores, *, lower: bool = False) -> Verdict:
    """Holds if the interval of the probability that ours is better than theirs lies above 1/2."""
    x, y = (np.asarray(each.values, float) * (-1 if lower else 1) for each in (ours, theirs))
    chance, interval = probability_of_improvement([x], [y]), improvement_interval([x], [y])
    direction = "lower" if lower else "higher"
    measured = f"{what}: {ours} against {theirs}; {direction} with probability {chance:.2f}"
    return Verdict(claim, measured, interval.low > 0.5, min(len(x), len(y)))


def no_better(claim: str, what: str, ours: Scores, theirs: Scores, *, slack: float) -> Verdict:
    """Holds if ours exceeds theirs by less than ``slack``: the upper end of the mean gain's interval is below it."""
    gain = np.asarray(ours.values, float) - np.asarray(theirs.values, float)
    measured = f"{what}: {ours} against {theirs}; gain {summary(list(gain))}, which must be below {slack:g}"
    return Verdict(claim, measured, bootstrap([gain]).high < slack, len(gain))


def within(
    claim: str, what: str, scores: Scores, *, low: float = -np.inf, high: float = np.inf, about: str = ""
) -> Verdict:
    """Holds if the interval of the mean lies between ``low`` and ``high``."""
    interval = bootstrap([scores.values])
    bounds = [f"at least {low:g}"] if np.isfinite(low) else []
    bounds += [f"at most {high:g}"] if np.isfinite(high) else []
    measured = f"{what}: {scores}, which must be {' and '.join(bounds)}{about}"
    return Verdict(claim, measured, bool(low <= interval.low and interval.high <= high), len(scores.values))


def all_hold(claim: str, parts: Sequence[Verdict]) -> Verdict:
    """A claim with several parts, which holds if every part holds."""
    measured = ". ".join(part.measured for part in parts)
    return Verdict(claim, measured, all(part.holds for part in parts), min(part.seeds for part in parts))


def summary(values: Values) -> str:
    """The mean with its 95 % interval; only the mean for a single seed."""
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, high = bootstrap([values])
    return f"{np.mean(values):.3g} [{low:.3g}, {high:.3g}]"

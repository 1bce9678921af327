"""From numbers to a sentence: whether a claim of the paper holds for us, decided by a rule and not by eye.

With several seeds a claim holds if the 95 % bootstrap interval excludes the opposite; with one seed the numbers are
merely compared, and the verdict says that it rests on one seed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from edl.evaluate.statistics import bootstrap, improvement_interval, probability_of_improvement

Values = Sequence[float]


class Verdict(NamedTuple):
    """The claim in a sentence, what was measured, whether it holds, and over how many seeds."""

    claim: str
    measured: str
    holds: bool
    seeds: int

    def to_json(self) -> dict[str, Any]:
        """As the numbers' file has it."""
        return self._asdict()


class Scores(NamedTuple):
    """One number per seed, and what they are the scores of."""

    label: str
    values: Values

    def __str__(self) -> str:
        return f"{self.label} {summary(self.values)}"


def better(claim: str, what: str, ours: Scores, theirs: Scores, *, lower: bool = False) -> Verdict:
    """Holds if ours beats theirs more often than not: the interval of the probability of improvement is above 1/2."""
    x, y = (np.asarray(each.values, float) * (-1 if lower else 1) for each in (ours, theirs))
    chance, interval = probability_of_improvement([x], [y]), improvement_interval([x], [y])
    direction = "lower" if lower else "higher"
    measured = f"{what}: {ours} against {theirs}; {direction} with probability {chance:.2f}"
    return Verdict(claim, measured, interval.low > 0.5, min(len(x), len(y)))


def no_better(claim: str, what: str, ours: Scores, theirs: Scores, *, slack: float) -> Verdict:
    """Holds if ours is less than ``slack`` above theirs on average: the upper end of the interval says so."""
    gain = np.asarray(ours.values, float) - np.asarray(theirs.values, float)
    measured = f"{what}: {ours} against {theirs}; a gain of {summary(list(gain))} where {slack:g} would be one"
    return Verdict(claim, measured, bootstrap([gain]).high < slack, len(gain))


def within(
    claim: str, what: str, scores: Scores, *, low: float = -np.inf, high: float = np.inf, about: str = ""
) -> Verdict:
    """Holds if the interval of the mean lies between ``low`` and ``high``."""
    interval = bootstrap([scores.values])
    bounds = [f"at least {low:g}"] if np.isfinite(low) else []
    bounds += [f"at most {high:g}"] if np.isfinite(high) else []
    measured = f"{what}: {scores}, where {' and '.join(bounds)} is claimed{about}"
    return Verdict(claim, measured, bool(low <= interval.low and interval.high <= high), len(scores.values))


def together(claim: str, parts: Sequence[Verdict]) -> Verdict:
    """A claim with several parts holds if each does."""
    measured = ". ".join(part.measured for part in parts)
    return Verdict(claim, measured, all(part.holds for part in parts), min(part.seeds for part in parts))


def summary(values: Values) -> str:
    """Mean and 95 % interval, as people read them; the mean alone for a single seed."""
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, high = bootstrap([values])
    return f"{np.mean(values):.3g} [{low:.3g}, {high:.3g}]"

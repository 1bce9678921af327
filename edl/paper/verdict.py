"""Verdicts: whether a claim holds in our numbers, decided by a fixed rule, with the size of the effect.

A claim is a sentence of the paper (or of ours). Its test has one or more parts; each part compares two sets of scores,
or one set with a bound, and has one of three outcomes:

    holds      the 95 % bootstrap interval lies on the side that the claim names,
    refuted    it lies on the other side,
    undecided  it includes both.

If x is claimed to be greater than y, the intervals of both effect sizes have to lie above 0: with few seeds, that of
Cliff's delta excludes 0 although the means could be equal.

A claim holds if all its parts hold, and is refuted if any part is refuted. With one seed the interval is a point: the
rule compares the numbers directly, and the verdict states that there is one seed.

Every part reports an `Effect`: the difference of the means x - y with its interval, in the unit of the score, and
Cliff's delta, P(x > y) - P(x < y) for a random seed of each side, in [-1, 1]. Delta needs no assumption about the
distribution of scores, but is 1 as soon as no two seeds overlap; the difference says by how much.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from edl.evaluate.statistics import Interval, bootstrap, cliffs_delta, delta_interval, difference_interval

Outcome = Literal["holds", "undecided", "refuted"]
Source = Literal["paper", "ours", "theory"]
Values = Sequence[float]


class Scores:
    """One number per seed, and the name of what was scored. Seeds without a score (None) are left out."""

    def __init__(self, label: str, values: Sequence[float | None]):
        self.label = label
        self.values = known(values)

    def __str__(self) -> str:
        return f"{self.label} {summary(self.values)}"


def known(values: Sequence[float | None]) -> list[float]:
    """The values of the seeds that have one."""
    return [float(value) for value in values if value is not None]


class Effect(NamedTuple):
    """The size of a difference x - y. ``y`` is a bound if there is no second set of scores."""

    what: str
    x: str
    y: str
    difference: float
    interval: Interval
    delta: float
    delta_interval: Interval

    @property
    def above(self) -> bool:
        """Whether x is greater than y: the intervals of the difference and of Cliff's delta both lie above 0."""
        return self.interval.low > 0 and self.delta_interval.low > 0

    @property
    def below(self) -> bool:
        """Whether x is less than y: both intervals lie below 0."""
        return self.interval.high < 0 and self.delta_interval.high < 0

    def __str__(self) -> str:
        return (
            f"difference {_with_interval(self.difference, self.interval)}, "
            f"delta {self.delta:+.2f} [{self.delta_interval.low:+.2f}, {self.delta_interval.high:+.2f}]"
        )


class Part(NamedTuple):
    """One comparison of a test. ``effect`` is None if no seed has a score."""

    measured: str
    outcome: Outcome
    seeds: int
    effect: Effect | None


class Verdict(NamedTuple):
    """A claim in one sentence, how it is tested, what was measured, and the outcome.

    ``source`` says whose claim it is; statements of the ``theory`` are checked exactly, without seeds, and are not
    counted with the others. ``seeds`` is the smallest number of seeds in any part.
    """

    claim: str
    test: str
    measured: list[str]
    outcome: Outcome
    seeds: int
    effects: list[Effect]
    source: Source = "paper"

    @property
    def holds(self) -> bool:
        return self.outcome == "holds"

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "holds": self.holds, "effects": [effect._asdict() for effect in self.effects]}


def judge(claim: str, test: str, parts: Sequence[Part], *, source: Source = "paper") -> Verdict:
    """The verdict on a claim: it holds if every part of its test holds, and is refuted if any part is refuted."""
    outcomes = [part.outcome for part in parts]
    outcome: Outcome = "holds" if set(outcomes) == {"holds"} else "refuted" if "refuted" in outcomes else "undecided"
    effects = [part.effect for part in parts if part.effect is not None]
    seeds = min(part.seeds for part in parts)
    return Verdict(claim, test, [part.measured for part in parts], outcome, seeds, effects, source)


def greater(what: str, x: Scores, y: Scores, *, paired: bool = False) -> Part:
    """x is greater than y: see `Effect.above` and `Effect.below`. ``paired``: both come from the same seeds."""
    return _compare(what, x, y, lambda e: (e.above, e.below), paired=paired)


def less(what: str, x: Scores, y: Scores, *, paired: bool = False) -> Part:
    """x is less than y."""
    return _compare(what, x, y, lambda e: (e.below, e.above), paired=paired)


def not_greater(what: str, x: Scores, y: Scores, *, slack: float) -> Part:
    """x exceeds y by less than ``slack``: the interval of the difference of the means lies below it."""
    note = f"at most {slack:g} more"
    return _compare(what, x, y, lambda e: (e.interval.high < slack, e.interval.low > slack), note=note)


def not_less(what: str, x: Scores, y: Scores, *, slack: float) -> Part:
    """x falls short of y by less than ``slack``."""
    note = f"at most {slack:g} less"
    return _compare(what, x, y, lambda e: (e.interval.low > -slack, e.interval.high < -slack), note=note)


def at_least(what: str, x: Scores, bound: float) -> Part:
    """The interval of the mean lies at or above ``bound``. The effect is the distance from the bound."""
    note = f"at least {bound:g}"
    return _compare(what, x, bound, lambda e: (e.interval.low >= 0, e.interval.high < 0), note=note)


def at_most(what: str, x: Scores, bound: float) -> Part:
    """The interval of the mean lies at or below ``bound``."""
    note = f"at most {bound:g}"
    return _compare(what, x, bound, lambda e: (e.interval.high <= 0, e.interval.low > 0), note=note)


def between(what: str, x: Scores, low: float, high: float) -> Part:
    """The interval of the mean lies between two bounds. The effect is the distance from their middle."""
    middle, half = (low + high) / 2, (high - low) / 2

    def rule(e: Effect) -> tuple[bool, bool]:
        inside = -half <= e.interval.low and e.interval.high <= half
        return inside, e.interval.low > half or e.interval.high < -half

    return _compare(what, x, middle, rule, note=f"between {low:g} and {high:g}")


def effect_of(what: str, x: Scores, y: Scores, *, paired: bool = False) -> Effect | None:
    """The size of the difference between two sets of scores; None if one of them is empty.

    ``paired`` uses the difference of each seed, for two measurements of the same runs. Delta is then the share of seeds
    with a positive difference minus the share with a negative one.
    """
    if not x.values or not y.values:
        return None
    a, b = np.asarray(x.values), np.asarray(y.values)
    if paired:
        a, b = a - b, np.zeros(1)
    return Effect(
        what,
        x.label,
        y.label,
        float(np.mean(a) - np.mean(b)),
        difference_interval(a, b),
        cliffs_delta(a, b),
        delta_interval(a, b),
    )


def summary(values: Values) -> str:
    """The mean with its 95 % interval; only the mean for a single seed."""
    if not values:
        return "no seed"
    if len(values) == 1:
        return f"{values[0]:.3g}"
    return _with_interval(float(np.mean(values)), bootstrap([values]))


def _with_interval(value: float, interval: Interval) -> str:
    return f"{value:.3g} [{interval.low:.3g}, {interval.high:.3g}]"


def _compare(
    what: str,
    x: Scores,
    y: Scores | float,
    rule: Callable[[Effect], tuple[bool, bool]],
    *,
    note: str = "",
    paired: bool = False,
) -> Part:
    """A part of a test. ``rule`` says of an effect whether the claim holds, and whether it is refuted."""
    sides = [x, y] if isinstance(y, Scores) else [x]
    text = f"{what}: {' against '.join(map(str, sides))}" + (f" ({note})" if note else "")
    effect = effect_of(what, x, y if isinstance(y, Scores) else Scores(f"{y:g}", [y]), paired=paired)
    if effect is None:
        return Part(f"{text}; not measured", "undecided", 0, None)
    holds, refuted = rule(effect)
    outcome: Outcome = "holds" if holds else "refuted" if refuted else "undecided"
    return Part(f"{text}; {effect}", outcome, min(len(side.values) for side in sides), effect)

"""Are the skills better than random behaviour? One statistical test per claim, and a verdict in words.

The skills are compared with as many rollouts of uniform random actions in the same env, over what the user asked for:
the region of the run if it has one, the whole env otherwise.

* *differ*: I(S;Z) between cells and skills is larger than after assigning the rollouts to skills at random (a
  permutation test, because chance alone gives some information, more of it with fewer rollouts). The states are those
  of whole rollouts, or only their last ones: skills that have to be somewhere at the end may share the way there;
* *goals*: more rollouts end at the goal of their skill (`goal_success`), for methods with goals;
* *nearer*: the best skill ends nearer to a random point (`best_skill_distance`);
* *coverage*: more cells are visited (`skill_coverage`).

The last three hold if the 95 % interval of the difference lies above 0. The intervals are bootstrapped over the
rollouts of each skill, and over seeds if there are several: the skills are judged, and their rollouts are the sample.
Resampling lowers a minimum over skills and the number of visited cells, so the samples of *nearer* and *coverage* are
moved by their bias: their mean is the difference that was measured.

Skills are better than random if they differ and reach their goals more often. Without goals, they have to end nearer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from edl.evaluate.information import mutual_information, mutual_informations

PERMUTATIONS = 199
SIGNIFICANCE = 0.005
"""Level of the test of whole rollouts and of that of their last states. Together they have twice this level."""
MIN_INFORMATION = 0.1
"""Minimum information above chance, in nats, of skills that differ."""
RESAMPLES = 300
LEVEL = 0.95

VisitCounts = Int[np.ndarray, "k n c"]
"""Number of states of rollout n of skill k in cell c."""
Draws = Float[np.ndarray, "b k n"]
"""How often rollout n of skill k is part of resample b."""


class Behaviour(NamedTuple):
    """What the rollouts of skills, or of random actions, did.

    ``visits`` count states in the cells that were asked for, and all others in the last entry. ``distances`` are those
    from the last states to the points that were asked for. ``reached`` says which rollouts ended at their goal.
    ``ends`` counts the last states alone, if they are known.
    """

    visits: VisitCounts
    distances: Float[np.ndarray, "k n m"]
    reached: Bool[np.ndarray, "k n"] | None = None
    ends: VisitCounts | None = None


class Difference(NamedTuple):
    """A metric of the skills and of random actions, and bootstrap samples of their difference: above 0 is better."""

    skills: float
    random: float
    samples: Float[np.ndarray, " b"]


class Comparison(NamedTuple):
    """The skills of one seed, compared with random actions. ``ends_differ``: the last states alone tell them apart."""

    information: float
    by_chance: float
    p_value: float
    differences: dict[str, Difference]
    ends_differ: bool = False

    @property
    def differ(self) -> bool:
        return self.ends_differ or _informative(self.information, self.by_chance, self.p_value)


def compare_with_random(skills: Behaviour, random: Behaviour, seed: int = 0) -> Comparison:
    """All claims about the skills of one seed."""
    generator = np.random.default_rng(seed)
    information, by_chance, p_value = information_test(generator, skills.visits)
    differences: dict[str, Difference] = {}
    if skills.reached is not None and random.reached is not None:
        differences["goals"] = _difference(generator, _success, skills.reached, random.reached, 1)
    differences["nearer"] = _difference(generator, _distance, skills.distances, random.distances, -1)
    differences["coverage"] = _difference(generator, _coverage, skills.visits, random.visits, 1)
    ends = skills.ends
    ends_differ = ends is not None and _informative(*information_test(np.random.default_rng(seed), ends))
    return Comparison(information, by_chance, p_value, differences, ends_differ)


def information_test(generator: np.random.Generator, counts: VisitCounts) -> tuple[float, float, float]:
    """I(S;Z), its mean after assigning the rollouts to skills at random, and how often that is as large."""
    information, chance = mutual_information(counts.sum(axis=1)), permuted_information(generator, counts)
    p_value = (1 + np.sum(chance >= information)) / (1 + len(chance))
    return float(information), float(np.mean(chance)), float(p_value)


def _informative(information: float, by_chance: float, p_value: float) -> bool:
    return p_value <= SIGNIFICANCE and information - by_chance >= MIN_INFORMATION


def permuted_information(generator: np.random.Generator, counts: VisitCounts) -> np.ndarray:
    """I(S;Z) after assigning the rollouts to skills at random, once per permutation."""
    skills, rollouts, cells = counts.shape
    visited = counts.reshape(-1, cells)[:, np.any(counts, axis=(0, 1))]
    assigned = np.zeros((PERMUTATIONS, skills, len(visited)))
    for each in assigned:
        each[np.repeat(np.arange(skills), rollouts), generator.permutation(len(visited))] = 1.0
    return mutual_informations(assigned @ visited)


# Metrics of resampled rollouts. ``draws`` says how often each rollout of each skill was drawn, once per resample.


def _success(reached: Bool[np.ndarray, "k n"], draws: Draws) -> Float[np.ndarray, " b"]:
    return np.mean(draws * reached, axis=(1, 2))


def _distance(distances: Float[np.ndarray, "k n m"], draws: Draws) -> Float[np.ndarray, " b"]:
    """`best_skill_distance`. A skill whose rollouts may end out of reach is infinitely far if one of these is drawn."""
    finite = np.isfinite(distances)
    per_skill = np.moveaxis(draws, 0, 1)
    means = per_skill @ np.where(finite, distances, 0.0) / distances.shape[1]
    if not finite.all():
        means = np.where(per_skill @ (~finite).astype(float) > 0, np.inf, means)
    return np.mean(np.min(means, axis=0), axis=-1)


def _coverage(visits: VisitCounts, draws: Draws) -> Float[np.ndarray, " b"]:
    visited = (visits[..., :-1] > 0).reshape(-1, visits.shape[-1] - 1).astype(float)
    return np.mean((draws > 0).reshape(len(draws), -1) @ visited > 0, axis=1)


def _difference(generator: np.random.Generator, metric: Any, skills: Any, random: Any, sign: int) -> Difference:
    """The metric of both sides, and its difference after resampling the rollouts of every skill, on both sides."""
    ours, theirs = (metric(each, _draws(generator, each.shape[:2])) for each in (skills, random))
    samples = sign * (ours - theirs)
    mine, its = (float(metric(each, np.ones((1, *each.shape[:2])))[0]) for each in (skills, random))
    biased = metric is not _success and np.isfinite([mine, its, *samples]).all()  # a mean has no bias
    bias = np.mean(samples) - sign * (mine - its) if biased else 0.0
    return Difference(mine, its, samples - bias)


def _draws(generator: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """`RESAMPLES` of the rollouts of every skill: as many as there are, drawn with replacement."""
    skills, rollouts = shape
    chosen = generator.integers(rollouts, size=(RESAMPLES, skills, rollouts))
    first = rollouts * np.arange(RESAMPLES * skills).reshape(RESAMPLES, skills, 1)
    return np.bincount((chosen + first).ravel(), minlength=chosen.size).reshape(chosen.shape).astype(float)


def aggregate_comparisons(
    comparisons: Sequence[Comparison], unit: str = "cells", over: str | None = None
) -> dict[str, Any] | None:
    """The claims over all seeds with their intervals, and the ``verdict``; None without skills.

    ``over`` says what was asked for, if that is not the whole env.
    """
    if not comparisons:
        return None
    distinct = [each.differ for each in comparisons]
    claims = {
        name: _claim(name, [each.differences[name] for each in comparisons]) for name in comparisons[0].differences
    }
    return {
        "information": float(np.mean([each.information for each in comparisons])),
        "information_by_chance": float(np.mean([each.by_chance for each in comparisons])),
        "p_value": float(np.max([each.p_value for each in comparisons])),
        "differ": all(distinct),
        "claims": claims,
        "over": over,
        "verdict": verdict(distinct, claims, unit, over),
    }


def _claim(name: str, differences: Sequence[Difference]) -> dict[str, Any]:
    """A claim over all seeds: means of both sides, and the interval of the difference."""
    generator = np.random.default_rng(0)
    samples = np.stack([each.samples for each in differences])
    seeds = generator.integers(len(samples), size=samples.shape)
    pooled = np.mean(np.take_along_axis(samples, seeds, axis=0), axis=0)
    low, high = np.percentile(pooled, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    skills, random = (float(np.mean([getattr(each, side) for each in differences])) for side in ("skills", "random"))
    sign = -1 if name == "nearer" else 1
    return {
        "skills": skills,
        "random": random,
        "difference": sign * (skills - random),
        "ci95": [float(low), float(high)],
        "holds": bool(low > 0),
    }


def verdict(distinct: Sequence[bool], claims: Mapping[str, Mapping[str, Any]], unit: str, over: str | None) -> str:
    """One sentence: better, partly better or no better than random, and why."""
    if not all(distinct):
        which = "the skills" if not any(distinct) else f"the skills of {distinct.count(False)} of {len(distinct)} seeds"
        return f"no better than random: {which} cannot be distinguished by the states they visit"
    first = "goals" if "goals" in claims else "nearer"
    holding = [name for name in claims if claims[name]["holds"]]
    head = "better" if first in holding else "partly better" if holding else "no better"
    place = f" in the region {over}" if over else ""
    reasons = [_reason(name, claims[name], unit, bool(over)) for name in claims if name in (first, *holding)]
    return f"{head} than random{place}: the skills differ, and {'; '.join(reasons)}"


def _reason(name: str, claim: Mapping[str, Any], unit: str, in_region: bool) -> str:
    """A claim with its numbers. In a region they are others than the metrics of the run, which are of the whole env."""
    holds = claim["holds"]
    low, high = claim["ci95"]
    words = {
        "goals": "reach their goals more often",
        "nearer": "end nearer to a random point",
        "coverage": "visit more cells",
    }[name] + (" of the region" if in_region and name != "goals" else "")
    of = f" {unit}" if name == "nearer" else ""
    numbers = f"{claim['skills']:.3f}{of}, random actions {claim['random']:.3f}"
    interval = f"difference {claim['difference']:.3f}, 95 % interval {low:.3f} to {high:.3f}"
    return f"{words if holds else f'do not {words}'} ({numbers}; {interval})"

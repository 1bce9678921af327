"""Are the skills better than random behaviour? Compares a run with random actions and gives a verdict in words.

Four quantities are compared with the same number of rollouts of uniform random actions in the same env:

* *discriminability*: I(S;Z) between cells and skills, compared with its value after assigning the rollouts to skills at
  random (a permutation test, because chance alone gives some information, more of it with fewer rollouts);
* *coverage*: the share of all cells of the grid, reachable or not, that the rollouts visit;
* *entropy*: how evenly they visit them;
* *reach*: the distance from the best skill's end to a random point (`best_skill_distance`).

Skills that cannot be distinguished are no better than random, no matter how much they cover. Skills that can be
distinguished are better if they cover as much as random actions do, or if they end nearer to a random point: in a small
open env, random actions visit everything but stay nowhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from edl.evaluate.information import entropy, mutual_information

PERMUTATIONS = 199
SIGNIFICANCE = 0.01
MIN_INFORMATION = 0.1
"""Minimum information above chance, in nats, of skills that differ."""
COVERAGE_TOLERANCE = 0.98
"""Coverage and entropy of at least this share of the random ones count as equal."""
NEARER_RATIO = 0.9
"""Skills end nearer if their distance is at most this share of the random one."""

VisitCounts = Int[np.ndarray, "k n c"]
"""Number of states of rollout n of skill k in cell c."""

VERDICTS = (
    "no better than random: the skills cannot be distinguished by the states they visit",
    "partly better than random: the skills differ, but they cover less than random actions and end no nearer to a "
    "random point",
    "better than random: the skills differ and cover at least as much as random actions",
    "better than random: the skills differ and end nearer to a random point, although random actions cover more",
    "better than random: the skills differ, cover at least as much as random actions and end nearer to a random point",
)
"""From worst to best."""


def compare_with_random(
    skills: VisitCounts, random: VisitCounts, reach: float, random_reach: float, seed: int = 0
) -> dict[str, float | str]:
    """The four quantities of the skills and of random actions, and the ``verdict``."""
    generator = np.random.default_rng(seed)
    information = mutual_information(skills.sum(axis=1))
    chance = permuted_information(generator, skills)
    p_value = (1 + np.sum(chance >= information)) / (1 + len(chance))
    coverage, random_coverage = (float(np.mean(np.any(x, axis=(0, 1))[:-1])) for x in (skills, random))
    evenness, random_evenness = (entropy(x.sum(axis=(0, 1))) for x in (skills, random))
    distinct = bool(p_value <= SIGNIFICANCE and information - np.mean(chance) >= MIN_INFORMATION)
    wide = bool(coverage >= COVERAGE_TOLERANCE * random_coverage and evenness >= COVERAGE_TOLERANCE * random_evenness)
    facts: dict[str, float | str] = {
        "information": float(information),
        "information_by_chance": float(np.mean(chance)),
        "p_value": float(p_value),
        "coverage": coverage,
        "random_coverage": random_coverage,
        "entropy": float(evenness),
        "random_entropy": float(random_evenness),
        "reach": float(reach),
        "random_reach": float(random_reach),
    }
    return {**facts, "verdict": verdict(distinct, wide, reach <= NEARER_RATIO * random_reach)}


def permuted_information(generator: np.random.Generator, counts: VisitCounts) -> np.ndarray:
    """I(S;Z) after assigning the rollouts to skills at random, once per permutation."""
    skills, rollouts, cells = counts.shape
    visited = counts.reshape(-1, cells)[:, np.any(counts, axis=(0, 1))]
    permuted = (generator.permutation(visited).reshape(skills, rollouts, -1).sum(axis=1) for _ in range(PERMUTATIONS))
    return np.array([mutual_information(each) for each in permuted])


def verdict(distinct: bool, wide: bool, near: bool) -> str:
    return VERDICTS[0 if not distinct else 1 + wide + 2 * near]


def aggregate_comparisons(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Means over seeds and the worst verdict; None without skills."""
    if not comparisons:
        return None
    names = [name for name in comparisons[0] if name != "verdict"]
    facts = {name: float(np.mean([each[name] for each in comparisons])) for name in names}
    return {**facts, "verdict": min((each["verdict"] for each in comparisons), key=VERDICTS.index)}

"""Are the skills better than random behaviour? The question to ask of every run, and its answer in plain words.

Four things are compared with as many rollouts of uniform random actions from the same world:

* *discriminability*: I(S;Z) between cells and skills, against what it would be if rollouts were handed out to skills at
  random (a permutation test: chance alone gives some information, the more so the fewer the rollouts);
* *coverage*: the share of the cells that the rollouts visit;
* *entropy*: how evenly they visit them;
* *reach*: how far from any explored state one ends, with the skill that ends nearest (`zero_shot_distance`).

Skills that cannot be told apart are no better than random, whatever they cover: one behaviour is not ten skills. Skills
that can be are better if they cover as much as random actions do, or if they bring one nearer to wherever one wants to
be: in a small open world random actions come by everywhere, and stay nowhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from edl.evaluate.information import entropy, mutual_information

PERMUTATIONS = 199
SIGNIFICANT = 0.01
WORTH = 0.1
"""Nats of information above chance that make a difference worth having."""
TOLERANCE = 0.98
"""Coverage and entropy within two per cent of those of random behaviour are as good."""
NEARER = 0.9
"""Ending at most this share of the distance away is nearer."""

Census = Int[np.ndarray, "k n c"]
"""How often rollout n of skill k was in cell c."""


def proof(skills: Census, random: Census, reach: float, random_reach: float, seed: int = 0) -> dict[str, float | str]:
    """The comparison, and its ``verdict`` in words."""
    generator = np.random.default_rng(seed)
    information = mutual_information(skills.sum(axis=1))
    chance = permuted(generator, skills)
    p_value = (1 + np.sum(chance >= information)) / (1 + len(chance))
    covered, covered_at_random = (float(np.mean(np.any(x, axis=(0, 1))[:-1])) for x in (skills, random))
    even, even_at_random = (entropy(x.sum(axis=(0, 1))) for x in (skills, random))
    distinct = bool(p_value <= SIGNIFICANT and information - np.mean(chance) >= WORTH)
    wide = bool(covered >= TOLERANCE * covered_at_random and even >= TOLERANCE * even_at_random)
    facts: dict[str, float | str] = {
        "information": float(information),
        "information_by_chance": float(np.mean(chance)),
        "p_value": float(p_value),
        "coverage": covered,
        "random_coverage": covered_at_random,
        "entropy": float(even),
        "random_entropy": float(even_at_random),
        "reach": float(reach),
        "random_reach": float(random_reach),
    }
    return {**facts, "verdict": verdict(distinct, wide, reach <= NEARER * random_reach)}


def permuted(generator: np.random.Generator, counts: Census) -> np.ndarray:
    """I(S;Z) with rollouts dealt out to the skills at random, many times."""
    skills, rollouts, cells = counts.shape
    deck = counts.reshape(-1, cells)[:, np.any(counts, axis=(0, 1))]
    deals = (generator.permutation(deck).reshape(skills, rollouts, -1).sum(axis=1) for _ in range(PERMUTATIONS))
    return np.array([mutual_information(deal) for deal in deals])


VERDICTS = (
    "no better than random: the skills cannot be told apart by the states they visit",
    "partly better than random: the skills differ, but neither cover as much as random actions nor get any nearer",
    "better than random: the skills differ, and cover as much as random actions do or more",
    "better than random: the skills differ, and bring one nearer to any state, though random actions cover more",
    "better than random: the skills differ, cover as much as random actions or more, and bring one nearer to any state",
)
"""Plain words, the worst first."""


def verdict(distinct: bool, wide: bool, near: bool) -> str:
    """The words for what was found."""
    return VERDICTS[0 if not distinct else 1 + wide + 2 * near]


def summed_up(proofs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Means over seeds, and the verdict on the worst of them; None where there were no skills."""
    if not proofs:
        return None
    facts = {name: float(np.mean([each[name] for each in proofs])) for name in proofs[0] if name != "verdict"}
    return {**facts, "verdict": min((each["verdict"] for each in proofs), key=VERDICTS.index)}

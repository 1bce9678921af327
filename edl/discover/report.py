"""Checks of a `SkillModel` before training on it: are all codes used, and are the goals explored states?

Everything here runs on the host, once per seed.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillModel
from edl.nets.quantiser import perplexity

if TYPE_CHECKING:
    from scipy.spatial import KDTree

QUANTILE = 0.99
MARGIN = 1.5
"""A goal is off support if it is farther than ``MARGIN`` times the `QUANTILE` of the spacing from every explored state.

The quantile, unlike the median, allows for sparsely explored parts of the env. If states are uniform in s dimensions, a
random point between them is off support with probability (1 - QUANTILE)^(MARGIN^s): 1 in 30,000 in the plane.
"""
MAX_STATES = 8192
"""Maximum number of states that goals are compared with, evenly spaced over all."""
PROBES = 1024
"""Maximum number of states at which the spacing is measured."""


def skill_report(skills: SkillModel, samples: Float[Array | np.ndarray, "n s"]) -> dict[str, float | int]:
    """How evenly the codes of one seed are used, and how far its decoded goals are from the explored states.

    ``goals_off_support`` counts the decoded goals, before snapping. ``goal_offset`` is the largest distance between a
    goal and its decoded position.
    """
    usage, goals, decoded = (np.asarray(array) for array in (skills.usage, skills.goals, skills.decoded))
    return {
        "perplexity": float(perplexity(jnp.asarray(usage))),
        "usage_min": float(usage.min()),
        "codes_used": int(np.sum(usage > 0)),
        "dead_codes": int(np.sum(usage <= 0)),
        "goals_off_support": int(np.sum(off_support(decoded, samples))),
        "goal_offset": float(np.linalg.norm(goals - decoded, axis=-1).max()),
    }


def off_support(
    goals: Float[Array | np.ndarray, "k s"], states: Float[Array | np.ndarray, "n s"]
) -> Bool[np.ndarray, " k"]:
    """Which goals are farther from every explored state than explored states are from each other (see `MARGIN`).

    Each dimension is measured in its standard deviation over the states.
    """
    from scipy.spatial import KDTree

    kept = np.asarray(states, float)[:: -(-len(states) // MAX_STATES)]
    kept = np.unique(kept, axis=0)  # copies of a state would shrink the spacing
    deviation = kept.std(axis=0)
    scale = np.where(deviation > 1e-6, deviation, 1.0)
    tree = KDTree(kept / scale)
    distances, _ = tree.query(np.asarray(goals, float) / scale)
    return distances > MARGIN * spacing(tree) + 1e-6


def spacing(tree: "KDTree") -> float:
    """The `QUANTILE` of the distance from a state to its nearest other state; 0 if there is one state."""
    if tree.n < 2:
        return 0.0
    probes = tree.data[:: -(-tree.n // PROBES)]
    distances, _ = tree.query(probes, k=2)
    return float(np.quantile(distances[:, 1], QUANTILE))

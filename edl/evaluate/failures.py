"""The skills that fail: those whose rollouts mostly do not reach their goal. Read from metrics.json."""

import math
from collections.abc import Mapping
from typing import Any

from edl.evaluate.metrics import DISTANCE_UNIT

FAILED_BELOW = 0.5
"""A skill fails if less than this share of its rollouts end at its goal."""


def failed_skills(metrics: Mapping[str, Any]) -> dict[str, list[str]]:
    """The skills that fail, in words, by seed. Seeds without such skills are left out."""
    found: dict[str, list[str]] = {}
    unit = metrics.get("distance_unit") or DISTANCE_UNIT
    for number, seed in enumerate(metrics.get("per_seed") or []):
        failed = [each for each in seed.get("skills") or [] if _fails(each)]
        if failed:
            found[f"seed {seed.get('seed', number)}"] = [_describe(each, unit) for each in failed]
    return found


def failures_note(metrics: Mapping[str, Any], max_seeds: int | None = None) -> str | None:
    """Names the skills that fail, in the first ``max_seeds`` seeds that have any; None if no skill fails."""
    found = failed_skills(metrics)
    if not found:
        return None
    named = list(found.items())[:max_seeds]
    total = sum(len(seed.get("skills") or []) for seed in metrics["per_seed"])
    left_out = f"; and {len(found) - len(named)} more seeds" if len(named) < len(found) else ""
    lists = "; ".join(f"{seed}: {', '.join(skills)}" for seed, skills in named)
    count = sum(map(len, found.values()))
    return f"{count} of {total} skills reach their goal in less than half of their rollouts. {lists}{left_out}."


def _fails(result: Mapping[str, Any]) -> bool:
    success = result.get("goal_success")
    return isinstance(success, int | float) and success < FAILED_BELOW


def _describe(result: Mapping[str, Any], unit: str) -> str:
    """For example: skill 3 misses its goal (1 of 20, 1.20 cells away). Old metrics lack the number of rollouts."""
    distance = result.get("goal_distance")
    known = isinstance(distance, int | float) and math.isfinite(distance)
    away = f", {distance:.2f} {unit} away" if known else ""
    success, rollouts = result["goal_success"], result.get("rollouts")
    share = f"{round(success * rollouts)} of {rollouts}" if isinstance(rollouts, int) else f"{100 * success:.0f}%"
    return f"skill {result.get('skill', '?')} misses its goal ({share}{away})"

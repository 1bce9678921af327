"""The table of metrics: name, label, unit, direction and meaning of each number that metrics.json reports per seed.

The command line, the comparison of runs, sweeps, the report and the figures of the paper read this table. To add a
metric, write a function of the rollouts and add one entry with it (``compute``). The metrics of edl itself share most
of their work and are computed together in `edl.evaluate.summary`. If the meaning of a metric changes, add an entry to
`DEFINITIONS`, so that old and new numbers are not compared by mistake.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from edl.envs.success import SUCCESS_RADIUS

Unit = Literal["share", "distance", "nats", "cells"]
Direction = Literal["higher", "lower"]

NOT_METRICS = ("seed", "skills", "floor", "failed")
"""Entries of a seed in metrics.json that are no metrics: its number, details, and why it failed."""
DISTANCE_UNIT = "cells"
"""The unit of distances in a maze. `edl.envs.success` has those of other envs."""
GRID = ("cells of a grid over the explored states", "bins of a grid over the explored states")
"""What coverage is relative to in other envs than mazes."""


class Metric(NamedTuple):
    """One metric. A ``share`` lies in [0, 1] and is shown as a percentage; ``direction`` says which way is better.

    ``in_summary``: printed after a run. ``in_comparison``: a column of `edl compare` by default. ``in_tiles``: a tile
    at the top of the report. ``compute(evaluator, episodes)`` returns the metric of one seed from the `Evaluator` of
    the env and the rollouts of the skills, which have the leading axes (skill, rollout); None if it is not defined.
    """

    name: str
    label: str
    unit: Unit
    direction: Direction
    meaning: str
    in_summary: bool = True
    in_comparison: bool = True
    in_tiles: bool = True
    compute: Callable[[Any, Any], float | None] | None = None

    @property
    def is_share(self) -> bool:
        return self.unit == "share"

    @property
    def sign(self) -> int:
        """1 if higher is better, -1 if lower is: ``sign * value`` always grows with quality."""
        return 1 if self.direction == "higher" else -1

    def describe(self, distance_unit: str = DISTANCE_UNIT, success_radius: float = SUCCESS_RADIUS) -> str:
        """The meaning with its unit, for example "mutual information between cell and skill (nats)"."""
        unit = {"share": "", "distance": distance_unit, "nats": "nats", "cells": "unit cells"}[self.unit]
        # Outside of mazes nobody knows what can be reached: coverage is over a grid.
        cells, bins = ("reachable cells", "reachable bins") if distance_unit == DISTANCE_UNIT else GRID
        within = within_text(success_radius, distance_unit)
        meaning = self.meaning.format(within=within, cells=cells, bins=bins)
        return f"{meaning} ({unit})" if unit else meaning

    def format(self, value: float) -> str:
        """A percentage for a share, two decimals otherwise; fewer decimals from 100 on."""
        if self.is_share:
            return f"{100 * value:.1f}%".replace("100.0", "100")
        return format_number(value)


def within_text(radius: float, distance_unit: str) -> str:
    """The distance within which a goal is reached, for example "0.5 cells" or "1 unit"."""
    return f"{radius:g} {distance_unit[:-1] if radius == 1 else distance_unit}".strip()


def format_number(value: float) -> str:
    """Two decimals below 100, three digits below 1000, whole numbers above."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 100 else f"{value:.2f}"


_TABLE = (
    Metric(
        "goal_success",
        "Goals reached",
        "share",
        "higher",
        "share of rollouts that end within {within} of their skill's goal",
    ),
    Metric(
        "worst_skill_success",
        "Goals reached by the worst skill",
        "share",
        "higher",
        "goal_success of the skill that succeeds least",
        in_tiles=False,
    ),
    Metric(
        "goal_distance",
        "Distance to the goal",
        "distance",
        "lower",
        "distance from a rollout's end to its skill's goal",
    ),
    Metric(
        "best_skill_distance",
        "Best-skill distance",
        "distance",
        "lower",
        "distance from the best skill's end to a random point",
    ),
    Metric(
        "zero_shot_distance",
        "Zero-shot distance",
        "distance",
        "lower",
        "distance from the end of the skill that the run picks for a random point to that point",
    ),
    Metric("skill_coverage", "Skill coverage", "share", "higher", "share of the {cells} that the skills visit"),
    Metric("mutual_information", "I(S;Z)", "nats", "higher", "mutual information between a state's cell and its skill"),
    Metric(
        "discriminability",
        "Discriminability",
        "share",
        "higher",
        "share of states whose skill a newly trained classifier predicts",
        in_tiles=False,
    ),
    Metric(
        "floor_coverage",
        "Floor coverage",
        "cells",
        "higher",
        "cells of the floor that 48 deterministic rollouts of random skills visit, for robots in the open",
    ),
    Metric(
        "zero_shot_success",
        "Zero-shot goals",
        "share",
        "higher",
        "share of goals in the reached area within 1 unit of which a told rollout ends, for robots in the open",
    ),
    Metric(
        "state_entropy",
        "State entropy",
        "nats",
        "higher",
        "entropy of the cells that the skills visit",
        in_summary=False,
        in_comparison=False,
        in_tiles=False,
    ),
    Metric(
        "data_coverage",
        "Data coverage",
        "share",
        "higher",
        "share of the {bins} that the explorer visits",
        in_comparison=False,
    ),
    Metric(
        "data_coverage_100k",
        "Data coverage at 100k steps",
        "share",
        "higher",
        "share of the {bins} that the explorer visits in its first 100,000 steps",
        in_tiles=False,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
"""All metrics by name, in the order of every table."""


def label_of(name: str) -> str:
    """The label of a metric; the name in words for one that is not in the table."""
    return METRICS[name].label if name in METRICS else name.replace("_", " ").capitalize()


DEFINITIONS: dict[int, str] = {
    1: "edl 0.1: zero_shot_distance is the distance after the best skill, picked in hindsight (now "
    "best_skill_distance), zero_shot_picked_distance is what is now zero_shot_distance, and goal_distance and "
    "goal_success use straight distance",
    2: "edl 0.2: goal_distance and goal_success use straight distance, and for methods without stages a classifier "
    "fitted to the scored rollouts picks the skill of zero_shot_distance",
    3: "edl 0.3: goal_distance and goal_success use walking distance in mazes, and the run itself picks the skill of "
    "zero_shot_distance by the rule in picked_by",
}
"""The definitions of the metrics so far. The number is ``metric_definitions`` in metrics.json, from 3 on."""
CURRENT_DEFINITIONS = max(DEFINITIONS)


def definitions_of(metrics: Mapping[str, Any]) -> int:
    """The number of the definitions that a metrics.json holds. Only edl 0.1 has no ``best_skill_distance``."""
    given = metrics.get("metric_definitions")
    if isinstance(given, int):
        return given
    seeds = metrics.get("per_seed") or []
    by_first = any("zero_shot_distance" in seed and "best_skill_distance" not in seed for seed in seeds)
    return 1 if by_first else 2


def definitions_note(metrics: Mapping[str, Any]) -> str | None:
    """What is different about metrics of other definitions; None for the current ones."""
    number = definitions_of(metrics)
    if number == CURRENT_DEFINITIONS:
        return None
    return DEFINITIONS.get(number, f"definitions {number}, which this version of edl does not know")

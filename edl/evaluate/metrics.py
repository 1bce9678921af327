"""The table of metrics: name, label, unit, direction and meaning of each number that metrics.json reports per seed.

The command line, the comparison of runs, sweeps, the report and the figures of the paper read this table. To add a
metric, compute it in `edl.evaluate.summary` and add one entry here.
"""

from typing import Literal, NamedTuple

Unit = Literal["share", "distance", "nats"]
Direction = Literal["higher", "lower"]

DISTANCE_UNIT = "cells"
"""The unit of distances in a maze. Other envs measure in standard deviations of the explored features."""


class Metric(NamedTuple):
    """One metric. A ``share`` lies in [0, 1] and is shown as a percentage; ``direction`` says which way is better.

    ``in_summary``: printed after a run. ``in_comparison``: a column of `edl compare` by default. ``in_tiles``: a tile
    at the top of the report.
    """

    name: str
    label: str
    unit: Unit
    direction: Direction
    meaning: str
    in_summary: bool = True
    in_comparison: bool = True
    in_tiles: bool = True

    @property
    def is_share(self) -> bool:
        return self.unit == "share"

    @property
    def sign(self) -> int:
        """1 if higher is better, -1 if lower is: ``sign * value`` always grows with quality."""
        return 1 if self.direction == "higher" else -1

    def describe(self, distance_unit: str = DISTANCE_UNIT) -> str:
        """The meaning with its unit, for example "mutual information between cell and skill (nats)"."""
        unit = {"share": "", "distance": distance_unit, "nats": "nats"}[self.unit]
        return f"{self.meaning} ({unit})" if unit else self.meaning

    def format(self, value: float) -> str:
        """A percentage for a share, two decimals otherwise; fewer decimals from 100 on."""
        if self.is_share:
            return f"{100 * value:.1f}%".replace("100.0", "100")
        return format_number(value)


def format_number(value: float) -> str:
    """Two decimals below 100, three digits below 1000, whole numbers above."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 100 else f"{value:.2f}"


_TABLE = (
    Metric(
        "goal_success",
        "Goals reached",
        "share",
        "higher",
        "share of rollouts that end within 0.5 of their skill's goal",
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
        in_comparison=False,
        in_tiles=False,
    ),
    Metric("skill_coverage", "Skill coverage", "share", "higher", "share of the reachable cells that the skills visit"),
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
        "share of the reachable bins that the explorer visits",
        in_comparison=False,
    ),
    Metric(
        "data_coverage_100k",
        "Data coverage at 100k steps",
        "share",
        "higher",
        "share of the reachable bins that the explorer visits in its first 100,000 steps",
        in_tiles=False,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
"""All metrics by name, in the order of every table."""


def label_of(name: str) -> str:
    """The label of a metric; the name in words for one that is not in the table."""
    return METRICS[name].label if name in METRICS else name.replace("_", " ").capitalize()

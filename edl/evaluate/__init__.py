"""Evaluation: rollouts of skills, the metrics computed from them, and statistics over seeds."""

from edl.evaluate.metrics import METRICS, Metric
from edl.evaluate.skill_rollouts import play_skills, rollouts
from edl.evaluate.statistics import aggregate
from edl.evaluate.summary import (
    Evaluator,
    box_evaluator,
    maze_evaluator,
    random_baseline,
    skill_results,
    summarise,
    summarise_data,
    summarise_seeds,
)

__all__ = [
    "METRICS",
    "Evaluator",
    "Metric",
    "aggregate",
    "box_evaluator",
    "maze_evaluator",
    "play_skills",
    "random_baseline",
    "rollouts",
    "skill_results",
    "summarise",
    "summarise_data",
    "summarise_seeds",
]

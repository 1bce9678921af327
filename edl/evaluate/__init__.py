"""Evaluation: rollouts of skills, the metrics computed from them, and statistics over seeds."""

from edl.evaluate.metrics import METRICS, Metric
from edl.evaluate.skill_rollouts import play_skills, rollouts
from edl.evaluate.statistics import aggregate
from edl.evaluate.summary import (
    Evaluator,
    asked_for,
    behaviour_of,
    box_evaluator,
    end_distances,
    maze_evaluator,
    skill_results,
    summarise,
    summarise_data,
)

__all__ = [
    "METRICS",
    "Evaluator",
    "Metric",
    "aggregate",
    "asked_for",
    "behaviour_of",
    "box_evaluator",
    "end_distances",
    "maze_evaluator",
    "play_skills",
    "rollouts",
    "skill_results",
    "summarise",
    "summarise_data",
]

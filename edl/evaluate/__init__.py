"""Evaluation: coverage, information, goals, and statistics over seeds."""

from edl.evaluate.evaluate import (
    Yardstick,
    box_yardstick,
    maze_yardstick,
    random_baseline,
    rollouts,
    summarise,
    summarise_data,
    summarise_seeds,
)
from edl.evaluate.statistics import aggregate

__all__ = [
    "Yardstick",
    "aggregate",
    "box_yardstick",
    "maze_yardstick",
    "random_baseline",
    "rollouts",
    "summarise",
    "summarise_data",
    "summarise_seeds",
]

"""Sparse tasks in the bottleneck maze: controllers over 50 skills of several methods, and PPO without skills.

Every method has the environment steps of the table `edl.tables.methods` and its best settings in this maze. PPO without
skills is trained twice per method: with the steps of the controller, and with those that trained the skills in addition
(see `edl.runs.downstream`). ``benchmarks/downstream.py`` draws the curves in the JSON file.
"""

import dataclasses
from typing import Any

import numpy as np

from edl.hierarchy.controller import ControlConfig
from edl.runs.downstream import downstream, tasks_of
from edl.runs.evaluation import Evaluation
from edl.runs.result import Run
from edl.tables import tuning
from edl.tables.budget import budget, budgeted
from edl.tables.markdown import NONE, facts_line, markdown_table, million, missing_line
from edl.tables.methods import label_of, tuned_config
from edl.tables.table import EDL, Records, Result, Results, Row, Table, TableSettings

NAME = "downstream"
MAZE = "bottleneck"
METHODS = ("reverse_mi", "diayn", "metra", "discern", "skewfit", EDL)
NUM_SKILLS = 50
NUM_GOALS = 8
RADIUS = 0.5
MAX_SHARE = 10
"""A controller has the default steps per goal, and at most one step per this many of the budget of its skills."""


@dataclasses.dataclass(frozen=True)
class MeasureDownstream:
    """The result of `edl.runs.downstream` for a run, with ``env_steps`` steps per goal and without its settings."""

    env_steps: int

    @property
    def __name__(self) -> str:
        return f"{NAME}_{self.env_steps}"

    def __call__(self, run: Run, found: Evaluation) -> dict[str, Any]:
        tasks = tasks_of(run, NUM_GOALS, RADIUS)
        result = downstream(run, ControlConfig(env_steps=self.env_steps), tasks).result
        learners = {name: rounded_curve(result[name]) for name in ("controller", "flat", "flat_full")}
        return {name: result[name] for name in ("goals", "hold", "steps", "zero_shot")} | learners


def rounded_curve(learner: dict[str, Any]) -> dict[str, Any]:
    """The result of a learner with three decimals per point of its curve."""
    curve = learner["curve"]
    return learner | {"curve": curve | {"success": np.round(curve["success"], 3).tolist()}}


def rows(settings: TableSettings, records: Records) -> list[Row]:
    """The rows whose tuning is finished, and the tuning of the others."""
    if not settings.chosen_mazes([MAZE]):
        return []
    methods, steps = settings.chosen_methods(METHODS), budget(settings)
    measure = MeasureDownstream(min(ControlConfig().env_steps, max(steps // MAX_SHARE, 1)))
    found = tuning.rows_for(settings, methods, [MAZE]) if settings.tuned else []
    for method in methods:
        base = budgeted(settings, MAZE, method, steps, num_skills=NUM_SKILLS, num_seeds=settings.num_seeds)
        tuned = tuned_config(settings, records, base, MAZE, method)
        if tuned is not None:
            config, facts = tuned
            facts = {"method": method, "budget": steps, **facts}
            found.append(Row(NAME, method, config, facts, measure=measure))
    return found


def success_cell(learner: Result) -> str:
    """Success, and its 95 % interval if there are several seeds."""
    if len(learner["per_seed"]) == 1:
        return f"{learner['success']:.3f}"
    return f"{learner['success']:.3f} [{learner['ci95'][0]:.3f}, {learner['ci95'][1]:.3f}]"


def view(results: Results) -> str:
    """A row per method, with PPO without skills that has as many steps in total; the last row is PPO alone."""
    found = {method: results[method]["measured"] for method in METHODS if "measured" in results.get(method, {})}
    lines = []
    for method, each in found.items():
        steps, skills = each["steps"], each["controller"]["skills_in_a_success"]
        learners = [success_cell(each[name]) for name in ("controller", "zero_shot", "flat_full")]
        cost = [million(sum(steps["pretraining"].values())), million(steps["controller"])]
        lines.append([label_of(method), *cost, *learners, f"{skills:.1f}" if skills else NONE])
    for each in list(found.values())[-1:]:
        flat = [million(each["flat"]["env_steps"]), success_cell(each["flat"])]
        lines.append(["none (PPO without skills)", NONE, *flat, NONE, NONE, NONE])
    head = ["skills", "pretraining", "steps per goal", "controller", "zero-shot", "PPO, same total steps"]
    missing = missing_line([label_of(method) for method in METHODS if method not in found])
    return f"{facts_line(results)}\n\n{markdown_table([*head, 'skills in a success'], lines)}{missing}"


TABLE = Table("Sparse goals: controllers over skills, and PPO without skills", rows, {"": view})

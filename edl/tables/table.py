"""What a table is: rows, each measured by one run, and views of the rows as Markdown.

A row names its run. Rows of a table whose runs share their programs (see `edl.runs.points`) are measured together, as
one job. The result of a row is plain JSON: numbers per seed, the settings, the environment steps, and how it was made.
"""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy, TargetAsGoal
from edl.baselines import FAMILIES, METHODS, family_of
from edl.baselines.goal_skills import medoids
from edl.config import check_name
from edl.envs.random_maze import random_mazes
from edl.evaluate.metrics import CURRENT_DEFINITIONS, METRICS
from edl.evaluate.statistics import aggregate
from edl.runs.config import RunConfig
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import run_identity
from edl.runs.points import Measure
from edl.runs.provenance import provenance
from edl.runs.resolve import resolve_config
from edl.runs.result import Run

Result = Mapping[str, Any]
"""The result of a row, as JSON."""
Results = Mapping[str, Result]
"""The results of a table, by the key of their row."""
Records = Mapping[str, Results]
"""The results of all tables, by the name of the table."""

MAZES = ("square", "tree", "bottleneck")
"""The mazes in which methods are tuned and compared."""
RANDOM_MAZES = "random"
"""Stands for the random mazes where the mazes of a table are named."""
LEADS_MAZES = ("leads_easy", "leads_u", "leads_hard")
EDL, EDL_ORACLE, TLDR = "edl", "edl_oracle", "tldr"
EDL_DEFAULT = "edl_default"
"""EDL with default settings, where it is compared with tuned settings."""
EDL_RUNNING = "edl_running"
"""EDL with inputs that are normalised by running moments, like those of the baselines."""
BASELINES = tuple(name for name in METHODS if family_of(name) in FAMILIES)
"""The methods without stages that are part of edl."""
RIVALS = (*BASELINES, TLDR)
"""What EDL is compared with: the baselines, and an explorer whose policy reaches goals."""
COMPARED = (*RIVALS, EDL_RUNNING, EDL_ORACLE, EDL)
"""All methods of a comparison. ``edl`` explores by itself."""
EXPLORED_BY = {EDL_ORACLE: "oracle", TLDR: TLDR}
"""Rows of runs of EDL with another explorer."""
FIRST_MAZE = 61
"""Number of the first random maze in which methods are compared. Mazes 0 to 60 were looked at: a constant of the
learner (`edl.learn.walking.WALL_DETOUR`) was chosen on some of them, and failures were studied on others."""
REVISIONS = {
    EDL: 3,
    EDL_ORACLE: 3,
    EDL_DEFAULT: 3,
    EDL_RUNNING: 3,
    "hilp": 2,
    "fb": 2,
    "map_elites": 2,
    "disco_dance": 1,
    TLDR: 1,
}
"""Increase the number of a method when its code changes in a way that its settings do not show. Rows that were measured
before are then measured again. Methods that are not here have 0."""
FAILED_SKILL = 0.9
"""A skill fails if a smaller share of its rollouts reaches its goal."""


class TableSettings(NamedTuple):
    """Settings of all tables. ``methods`` and ``mazes`` restrict the rows; empty means all.

    ``steps`` is the budget of every method, 0 for the steps that EDL is configured for. Without ``tuned``, all methods
    have their default settings. ``adjust`` can change each config, e.g. for a tiny test run.
    """

    num_seeds: int = 10
    tuning_seeds: int = 3
    maze_seeds: int = 2
    many_seeds: int = 200
    num_mazes: int = 50
    steps: int = 0
    methods: tuple[str, ...] = ()
    mazes: tuple[str, ...] = ()
    tuned: bool = True
    adjust: Callable[[RunConfig], RunConfig] = lambda config: config

    def config(self, env: str, method: str = EDL, **settings: Any) -> RunConfig:
        """The config of a method in a maze: its defaults, with ``settings`` and ``adjust`` applied."""
        if method == EDL_RUNNING:
            config = with_values(self.config(env, **settings), {"learner.ppo.normalise": True})
            return resolve_config(self.adjust(config))
        if method in EXPLORED_BY:
            method, settings = EDL, {"explore": EXPLORED_BY[method], **settings}
        return resolve_config(self.adjust(resolve_config(RunConfig(env=env, method=method, **settings))))

    def chosen_methods(self, known: Sequence[str]) -> list[str]:
        return [name for name in known if not self.methods or name in self.methods]

    def chosen_mazes(self, known: Sequence[str]) -> list[str]:
        return [name for name in known if not self.mazes or name in self.mazes]


class Row(NamedTuple):
    """A row to measure: the table and key of its result, its run, and facts that are copied to the result.

    ``until`` is the last stage of the run. ``measure`` is a module-level function that computes further numbers. With
    a ``runner``, the row is not a run that is evaluated as usual: the runner does all of it. ``prepare`` is a
    module-level function that changes the run before its evaluation. ``drawing`` computes what a figure shows; a result
    without it is finished all the same. A row ``alone`` is a job of its own: its run shares no program with others, so
    it is an execution of its own with its own time.
    """

    table: str
    key: str
    config: RunConfig
    facts: dict[str, Any]
    until: str = "learn"
    measure: Measure | None = None
    runner: "Runner | None" = None
    prepare: Callable[[Run], Run] | None = None
    drawing: Measure | None = None
    alone: bool = False

    @property
    def identity(self) -> str:
        """A hash of everything that the result depends on."""
        function = self.measure or self.runner or self.prepare
        measured = None if function is None else function.__name__
        text = f"{run_identity(self.config, self.until)} {self.until} {measured} {CURRENT_DEFINITIONS}"
        if revision := REVISIONS.get(self.facts.get("method", "")):
            text += f" {revision}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


Runner = Callable[[Path, Sequence[Row], Interrupt], dict[str, dict[str, Any]]]
"""Runs and measures rows of one env, in one process, with runs in the folder ``path``: the results by key."""


class Table(NamedTuple):
    """A table. ``rows`` returns all rows that can be defined, given the results so far; it is called again later.

    Rows may belong to other tables whose results this one needs. ``views`` render the results as Markdown: the one
    named "" is the table itself, others are parts of it for certain pages.
    """

    title: str
    rows: Callable[[TableSettings, Records], list[Row]]
    views: Mapping[str, Callable[[Results], str]]
    on_request: bool = False
    """Not part of ``all``: it must be named, e.g. because it needs an accelerator."""


def method_row(table: str, key: str, method: str, config: RunConfig, facts: dict[str, Any]) -> Row:
    """The row of a method of `COMPARED`, whose run ends with the stage that trains the method's policy."""
    prepare = with_explorers_policy if method == TLDR else None
    return Row(table, key, config, {"method": method, **facts}, until=last_stage(method), prepare=prepare)


def last_stage(method: str) -> str:
    """The stage that trains a method's policy: for TLDR, an explorer, it is the first."""
    return "explore" if method == TLDR else "learn"


def with_explorers_policy(run: Run) -> Run:
    """An exploration as a run with skills: the explorer's policy, for goals that are the medoids of its states."""
    assert run.states is not None
    assert run.states.policy is not None

    def with_goals(samples: Float[Array, "n s"], policy: SkillPolicy) -> SkillPolicy:
        goals = medoids(samples, run.config.num_skills)
        return dataclasses.replace(policy, codes=goals, goals=goals, pick=TargetAsGoal())

    policies = jax.jit(jax.vmap(with_goals))(jnp.asarray(run.states.samples), run.states.policy)
    return dataclasses.replace(run, policy=policies)


@functools.lru_cache(maxsize=8)
def maze_names(count: int, first: int = 0) -> tuple[str, ...]:
    """The names of ``count`` random mazes of the fixed sequence, from number ``first`` on."""
    return tuple(spec.name for spec in random_mazes(first + count)[first:])


def setting(config: Any, path: str) -> Any:
    """The setting of a config with this path, e.g. ``learner.ppo.entropy_weight``."""
    for name in path.split("."):
        config = getattr(config, name)
    return config


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A config with other values of these settings."""
    for path, value in values.items():
        config = _replaced(config, path.split("."), value)
    return config


def _replaced(config: Any, path: list[str], value: Any) -> Any:
    name, *rest = path
    return dataclasses.replace(config, **{name: _replaced(getattr(config, name), rest, value) if rest else value})


def folder_name(row: Row) -> str:
    """The name of the folder of a row's run. Two rows never share one: they may be measured at the same time."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", f"{row.table}-{row.key}-{row.identity}")


def is_finished(row: Row, records: Records) -> bool:
    """Whether the result of a row is there, from the same settings and version."""
    return records.get(row.table, {}).get(row.key, {}).get("identity") == row.identity


def result_of(row: Row, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a row from the metrics of its run."""
    per_seed = [seed_result(each) for each in metrics["per_seed"]]
    names = [name for name in METRICS if any(each.get(name) is not None for each in per_seed)]
    means = aggregate([{name: each.get(name) for name in names} for each in per_seed])
    return {
        **made_by(row),
        "steps": metrics["steps"],
        "seconds": metrics["seconds"],
        "mean": {name: round(means[name]["mean"], 4) for name in names},  # type: ignore[index]
        "ci95": {name: [round(end, 4) for end in means[name]["ci95"]] for name in names},  # type: ignore[index]
        "random": rounded(metrics.get("random") or {}),
        "per_seed": per_seed,
        **({} if "measured" not in metrics else {"measured": metrics["measured"]}),
    }


def failed_result(row: Row, message: str) -> dict[str, Any]:
    """The result of a row whose run has failed, e.g. because its weights were no longer finite."""
    return {**made_by(row), "failed": message}


def made_by(row: Row) -> dict[str, Any]:
    """How a result was made."""
    about = provenance()
    return {
        "identity": row.identity,
        "env": row.config.env,
        **row.facts,
        "seed": row.config.seed,
        "num_seeds": row.config.num_seeds,
        "edl": about["edl"],
        "commit": about["commit"],
        "device": about["device"],
        "date": about["time"][:10],
    }


def seed_result(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of one seed, and the numbers of the skills that failed."""
    skills = [each for each in metrics.get("skills", []) if each["goal_success"] is not None]
    failed = [each["skill"] for each in skills if each["goal_success"] < FAILED_SKILL]
    kept = rounded({name: metrics.get(name) for name in METRICS})
    return {"seed": metrics["seed"], **kept, **({"failed_skills": failed} if skills else {})}


def rounded(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items() if isinstance(value, int | float)}


def total_steps(result: Result) -> int:
    return sum(result["steps"].values())


def check_names(names: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in names:
        check_name(name, known, what)

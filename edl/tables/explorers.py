"""The coverage of every explorer after 100,000 environment steps, and after a million.

Coverage is the share of the reachable bins that were visited (see `edl.evaluate.coverage`). The curves in the JSON file
are drawn by ``benchmarks/explorers.py``.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edl import explore
from edl.envs.maze import HORIZON
from edl.evaluate.coverage import bins_of, coverage_curve
from edl.explore.random_walk import RandomWalkConfig
from edl.runs.evaluation import Evaluation
from edl.runs.result import Run
from edl.tables.markdown import NONE, bold, facts_line, markdown_table, mean_cell, missing_line
from edl.tables.published import verdict
from edl.tables.table import MAZES, Records, Results, Row, Table, TableSettings

NAME, LONG = "explorers", "explorers_million"
BUDGETS = {NAME: 100_000, LONG: 1_000_000}
METRIC = {NAME: "data_coverage_100k", LONG: "data_coverage"}
WITHOUT_STEPS = ("oracle",)
"""Explorers that take no environment steps."""
RANDOM = {"random": RandomWalkConfig(persistence=0.0), "persistent random": RandomWalkConfig()}
"""The two baselines: independent random actions, and actions that are mostly repeated."""
MAX_BUDGET = {"smm": 100_000}
"""SMM takes one gradient step of SAC per environment step: a million steps would take hours on a CPU."""
POINTS = 100
PUBLISHED = {
    "ExDM": (None, (0.99, 0.91, 0.75)),
    "MEPOL": ("knn", (0.98, 0.89, 0.62)),
    "SMM": ("smm", (0.47, 0.25, 0.41)),
    "RND": ("rnd", (0.50, 0.28, 0.33)),
}
"""Coverage of the mazes after 100,000 steps as the paper of ExDM (ICLR 2026) reports it, and our explorer that comes
nearest to the method: `knn` maximises the entropy that MEPOL maximises. ExDM's own number on bottleneck is 0.75 ± 0.15.
"""
REASON = (
    "Published are the numbers in ExDM's paper, whose authors ran all of these methods; *higher*, *lower* and *equal* "
    "compare our interval with them. Learners and settings differ: our SMM trains a mixture of policies with one "
    "gradient step of SAC per environment step, and our RND and knn train PPO."
)
README = ("random", "persistent random", "smm", "frontier")


def explorers() -> dict[str, tuple[str, Any]]:
    """The explorer and its settings, by the name in the table. None means those of the preset."""
    left_out = (*WITHOUT_STEPS, "random_walk", "hindsight")  # the last one needs an env that shows the time left
    chosen = {name: (name, None) for name in explore.METHODS if name not in left_out}
    return chosen | {name: ("random_walk", config) for name, config in RANDOM.items()}


def rows(table: str, settings: TableSettings, records: Records) -> list[Row]:
    """One row per explorer and maze."""
    budget, chosen = BUDGETS[table], settings.chosen_methods(list(explorers()))
    return rows_of(table, budget, settings, [name for name in chosen if budget <= MAX_BUDGET.get(name, budget)])


def random_rows(table: str, budget: int, settings: TableSettings) -> list[Row]:
    """The rows of random actions, for a table of another kind."""
    return rows_of(table, budget, settings, settings.chosen_methods(list(RANDOM)))


def rows_of(table: str, budget: int, settings: TableSettings, names: list[str]) -> list[Row]:
    """One row per named explorer and maze, with this number of environment steps."""
    found = []
    for name in names:
        explorer, config = explorers()[name]
        for maze in settings.chosen_mazes(MAZES):
            base = settings.config(maze, explore=explorer, explorer=config, num_seeds=settings.num_seeds)
            iterations = max(budget // HORIZON // base.explorer.rollouts, 1)
            sized = dataclasses.replace(base, explorer=dataclasses.replace(base.explorer, iterations=iterations))
            facts = {"method": name, "budget": budget}
            found.append(
                Row(table, f"{maze}/{name}", settings.adjust(sized), facts, until="explore", measure=coverage_curves)
            )
    return found


def coverage_curves(run: Run, found: Evaluation) -> dict[str, Any]:
    """The coverage at evenly spaced numbers of steps: mean, lowest and highest of the seeds."""
    assert run.layout is not None
    assert run.states is not None
    experience = run.states.experience
    assert experience is not None
    total = run.config.explorer.iterations * run.config.explorer.rollouts * run.env.horizon
    steps = np.linspace(total / POINTS, total, POINTS).astype(np.int32)
    grid = bins_of(run.layout)
    curves = np.asarray(jax.jit(jax.vmap(lambda each: coverage_curve(grid, each, jnp.asarray(steps))))(experience))
    ends = {"mean": curves.mean(axis=0), "low": curves.min(axis=0), "high": curves.max(axis=0)}
    return {"env_steps": steps.tolist(), **{name: curve.round(4).tolist() for name, curve in ends.items()}}


def view(table: str, results: Results) -> str:
    """The coverage of every explorer in every maze."""
    lines, missing = [], []
    for name in explorers():
        found = {maze: results.get(f"{maze}/{name}") for maze in MAZES}
        missing += [f"{name} in {maze}" for maze, each in found.items() if each is None]
        if any(each is not None for each in found.values()):
            cells = [NONE if each is None else mean_cell(each, METRIC[table], 3) for each in found.values()]
            lines.append([name, *cells])
    if table == NAME:
        lines += [published_line(name, results) for name in PUBLISHED]
    head = ["explorer", *(f"{maze}, {BUDGETS[table] // 1000}k" for maze in MAZES)]
    reason = f"\n\n{REASON}" if table == NAME else ""
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing_line(missing)}{reason}"


def published_line(name: str, results: Results) -> list[str]:
    """The published numbers of an explorer, and whether ours are higher."""
    ours, values = PUBLISHED[name]
    cells = []
    for maze, value in zip(MAZES, values, strict=True):
        judged = verdict(results.get(f"{maze}/{ours}", {}), METRIC[NAME], value)
        cells.append(f"{value:.2f}" + ("" if judged == NONE else f" (`{ours}`: {judged})"))
    return [f"{name}, published", *cells]


def readme_view(results: Results) -> str:
    """A few explorers, without intervals."""
    lines, shown = [], {key: each for key, each in results.items() if each["method"] in README}
    for maze in MAZES:
        found = [results.get(f"{maze}/{name}", {}).get("mean", {}).get(METRIC[NAME]) for name in README]
        cells = [NONE if each is None else f"{each:.2f}" for each in found[:-1]]
        lines.append([maze, *cells, NONE if found[-1] is None else bold(f"{found[-1]:.3f}")])
    head = ["", *README[:-1], bold(README[-1])]
    return f"{facts_line(shown or results)}\n\n{markdown_table(head, lines)}"


TABLE = Table(
    "Coverage of every explorer after 100,000 steps",
    functools.partial(rows, NAME),
    {"": functools.partial(view, NAME), "readme": readme_view},
)
LONG_TABLE = Table(
    "Coverage of every explorer after 1,000,000 steps",
    functools.partial(rows, LONG),
    {"": functools.partial(view, LONG)},
)

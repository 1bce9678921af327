"""What a command prints when it is done."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from edl import baselines, discover, explore
from edl.envs import WORLDS
from edl.runs.result import Run
from edl.interop.env_names import needs_import

ROWS = {
    "data_coverage": "share of the world's bins explored",
    "data_coverage_100k": "the same after 100,000 steps",
    "skill_coverage": "share of the cells that skills visit",
    "goal_success": "rollouts that end within 0.5 of the goal",
    "goal_distance": "distance from their end to the goal",
    "zero_shot_distance": "walk left to any point by the best skill",
    "zero_shot_picked_distance": "the same, the skill picked by q(z|s)",
    "mutual_information": "I(S;Z) in nats",
    "discriminability": "states whose skill a fresh classifier names",
}


def summary(console: Console, run: Run) -> None:
    """The numbers of a run with those of random actions beside, its pictures, and what to do next."""
    metrics = run.metrics or {}
    table = Table(title=_title(run), title_justify="left", title_style="bold", pad_edge=False, box=None)
    table.add_column("metric")
    table.add_column("mean", justify="right", style="bold")
    if run.config.num_seeds > 1:
        table.add_column("95% interval", justify="right")
    table.add_column("random", justify="right", style="dim")
    table.add_column("", style="dim")
    for name, meaning in ROWS.items():
        values = (metrics.get("aggregate") or {}).get(name)
        if values is None:
            continue
        low, high = values["ci95"]
        interval = [f"{low:.3f} to {high:.3f}"] if run.config.num_seeds > 1 else []
        chance = (metrics.get("random") or {}).get(name)
        table.add_row(name, f"{values['mean']:.3f}", *interval, "-" if chance is None else f"{chance:.3f}", meaning)
    console.print()
    console.print(table)
    found = metrics.get("proof")
    if found:
        console.print()
        console.print(f"skills    {found['verdict']}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"measured  {metrics.get('coverage_is_over')}", markup=False, highlight=False, soft_wrap=True)
    _where(console, run)


def _where(console: Console, run: Run) -> None:
    if run.path is None:
        return
    pictures = sorted((run.path / "figures").glob("*.png"))
    console.print()
    seconds = (run.metrics or {}).get("seconds", {}).get("total")
    took = "" if seconds is None else f" ({seconds:.0f} s)"
    lines = [f"report    {run.path / 'report.html'}{took}"]
    names = ", ".join(picture.stem for picture in pictures)
    lines += [f"pictures  {run.path / 'figures'}: {names}"] if pictures else []
    lines += [f"next      {next_step(run)}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def next_step(run: Run) -> str:
    """One line on what to do with the run."""
    imported = needs_import(run.config.env)
    flag, argument = (f" --env {run.config.env}", f', env="{run.config.env}"') if imported else ("", "")
    if run.policy is not None:
        return f'run = edl.load("{run.path}"{argument}); edl evaluate, edl figure {run.path}{flag}'
    stage = "discover" if run.skills is None else "learn"
    return f"edl {stage} {run.path}{flag}"


def _title(run: Run) -> str:
    how = run.config.method if run.config.method != "edl" else f"{run.config.explore} + {run.config.discover}"
    seeds = f", {run.config.num_seeds} seeds" if run.config.num_seeds > 1 else ""
    return f"{run.config.env}: {run.config.num_skills} skills by {how}{seeds}"


def listing(console: Console) -> None:
    """All that can be named on the command line."""
    registries: Mapping[str, Mapping[str, Any]] = {
        "worlds (--env), or the path of a maze text file": dict.fromkeys(WORLDS, ""),
        "explorers (--explore), or dataset:PATH": {name: _about(m) for name, m in explore.METHODS.items()},
        "discoverers (--discover)": {name: _about(m) for name, m in discover.METHODS.items()},
        "methods without stages (edl baseline)": {name: _about(m) for name, m in baselines.METHODS.items()},
    }
    for title, entries in registries.items():
        if not entries:
            continue
        console.print(f"[bold]{title}")
        width = max(map(len, entries))
        for name, about in entries.items():
            console.print(f"  {name:<{width}}  {about}".rstrip(), markup=False, highlight=False, soft_wrap=True)


def _about(method: Any) -> str:
    """The first line of the module that a method lives in: it names the paper."""
    text = sys.modules[method.build.__module__].__doc__ or ""
    return text.strip().split("\n", 1)[0]

"""What a command prints at the end of a run: the metrics next to a random baseline, the verdict, and the next steps."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edl.cli.console import print_labelled
from edl.envs.success import SUCCESS_RADIUS
from edl.evaluate.failures import failures_note
from edl.evaluate.horizon import horizon_note
from edl.evaluate.metrics import DISTANCE_UNIT, METRICS
from edl.evaluate.reachability import reachability_note
from edl.interop.env_names import needs_import
from edl.runs import store
from edl.runs.failures import failed_seeds_note
from edl.runs.result import Run

CODEBOOK_FACTS = {
    "codes_used": "number of codes that have states",
    "perplexity": "effective number of codes in use",
    "usage_min": "share of p(s) of the code that is used least",
}
"""Facts about stage 2, from ``codebook`` in metrics.json."""
MAX_SEEDS_NAMED = 5
"""Number of seeds whose failed skills are named. The report names all of them."""


def print_summary(console: Console, run: Run, took: float | None = None) -> None:
    """Print the result of a run, and what to do with it next. ``took`` are the seconds of this command."""
    metrics = run.metrics or {}
    console.print()
    console.print(metrics_table(run))
    comparison = metrics.get("proof")
    if comparison:
        console.print()
        print_labelled(console, "skills", comparison["verdict"])
        whole = ". The table is about the whole env, not only the region" if comparison.get("over") else ""
        print_labelled(console, "coverage", f"measured over {metrics.get('coverage_is_over')}{whole}")
    failures = failures_note(metrics, MAX_SEEDS_NAMED)
    horizon = None if run.layout is None else horizon_note(run.layout, run.env.horizon)
    reachability = None if run.states is None else reachability_note(run.log, run.states.samples.shape[-1])
    notes = [failures, failed_seeds_note(metrics), horizon, reachability]
    for warning in [*codebook_warnings(metrics.get("codebook") or []), *filter(None, notes)]:
        print_labelled(console, "warning", warning)
    if run.path is None:
        return
    console.print()
    if (run.path / store.REPORT).is_file():
        print_labelled(console, "open", f"{run.path / store.REPORT}{times_of(metrics, took)}")
    print_labelled(console, "Python", python_line(run))
    print_labelled(console, "shell", shell_line(run))


def times_of(metrics: Mapping[str, Any], took: float | None) -> str:
    """How long this command took, and how long the whole run if that is longer: it may have had several commands."""
    total = metrics.get("seconds", {}).get("total")
    if took is None:
        return "" if total is None else f" (the run took {total:.0f} s)"
    longer = total is not None and total > 1.1 * took + 1
    return f" (took {took:.0f} s{f'; all commands of this run {total:.0f} s' if longer else ''})"


def codebook_warnings(reports: Sequence[Mapping[str, float | int]]) -> list[str]:
    """Sentences about codes without states and about goals that are not explored states, summed over seeds."""
    dead, off = (int(sum(report[name] for report in reports)) for name in ("dead_codes", "goals_off_support"))
    total = int(sum(report["codes_used"] + report["dead_codes"] for report in reports))
    warnings = [f"{dead} of {total} codes have no states. Explore longer, or ask for fewer skills."] if dead else []
    return warnings + ([f"{off} of {total} decoded goals are far from every explored state."] if off else [])


def metrics_table(run: Run) -> Table:
    """The metrics of a run, their intervals over seeds, the same metrics of random actions, and their meaning."""
    metrics, many = run.metrics or {}, run.config.num_seeds > 1
    unit, radius = metrics.get("distance_unit") or DISTANCE_UNIT, metrics.get("success_radius") or SUCCESS_RADIUS
    table = Table(title=Text(title_of(run), style="bold"), title_justify="left", pad_edge=False, box=None)
    table.add_column("metric", no_wrap=True)
    table.add_column("mean", justify="right", style="bold", no_wrap=True)
    if many:
        table.add_column("95% interval", justify="right", no_wrap=True)
    table.add_column("random", justify="right", style="dim", no_wrap=True)
    table.add_column("meaning", style="dim")
    for name, metric in METRICS.items():
        values = (metrics.get("aggregate") or {}).get(name)
        if values is None or not metric.in_summary:
            continue
        low, high = map(number, values["ci95"])
        random = number((metrics.get("random") or {}).get(name))
        cells = [name, number(values["mean"]), *([f"{low} to {high}"] if many else [])]
        table.add_row(*cells, random, metric.describe(unit, radius))
    for name, value, meaning in stage_facts(run):
        table.add_row(name, value, *([""] if many else []), "-", meaning)
    return table


def number(value: float | None) -> str:
    """A number of metrics.json as text. There, NaN and infinity are None."""
    return "-" if value is None else f"{value:.3f}"


def stage_facts(run: Run) -> list[tuple[str, str, str]]:
    """Name, value and meaning of what the first stages found, for a run without a policy. Means over seeds."""
    if run.policy is not None or run.states is None:
        return []
    facts = [("num_states", f"{run.states.samples.shape[1]}", "number of samples of p(s)")]
    reports = (run.metrics or {}).get("codebook") or []
    for name, meaning in CODEBOOK_FACTS.items():
        if reports:
            facts.append((name, f"{sum(each[name] for each in reports) / len(reports):.4g}", meaning))
    return facts


def title_of(run: Run) -> str:
    config = run.config
    seeds = f", {config.num_seeds} seeds" if config.num_seeds > 1 else ""
    if run.policy is None and run.skills is None:
        return f"{config.env}: states from {config.explore}{seeds}"
    how = config.method if config.method != "edl" else f"{config.explore} + {config.discover}"
    return f"{config.env}: {config.num_skills} skills by {how}{seeds}"


def python_line(run: Run) -> str:
    """The line of Python that loads the run."""
    env = f", env={_python_text(run.config.env)}" if needs_import(run.config.env) else ""
    return f"run = edl.load({_python_text(str(run.path))}{env})"


def shell_line(run: Run) -> str:
    """The command that continues with the run: its next stage, or its evaluation."""
    command = "evaluate" if run.policy is not None else "discover" if run.skills is None else "learn"
    return f"edl {command} {shlex.quote(str(run.path))}{env_flag(run.config.env)}"


def env_flag(env: str) -> str:
    """The flag that a command needs to load a run in an env that is imported from a module."""
    return f" --env {shlex.quote(env)}" if needs_import(env) else ""


def _python_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

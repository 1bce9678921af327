"""Compare runs: a table of their metrics with intervals, and the probability that each beats the first run."""

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edl.config import ConfigError, check_name
from edl.evaluate.metrics import METRICS, NOT_METRICS, definitions_note, definitions_of
from edl.evaluate.statistics import aggregate, improvement_interval, probability_of_improvement
from edl.runs import store
from edl.runs.result import check_metrics

FIRST_NAMES = {"zero_shot_distance": "best_skill_distance", "zero_shot_picked_distance": "zero_shot_distance"}
"""Metrics that edl 0.1 wrote under other names, and their present names."""


class Entry(NamedTuple):
    """One metric of one run.

    ``improvement`` is the probability of beating the first run, with its 95 % interval. Both are None if the runs are
    in different envs, or if one of them has a single seed and there is no interval.
    """

    run: str
    metric: str
    values: list[float]
    mean: float
    iqm: float
    ci95: tuple[float, float]
    improvement: float | None
    improvement_ci95: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Against the first run: beats, loses or unclear, by whether the interval excludes 0.5; empty without one."""
        if self.improvement_ci95 is None:
            return ""
        low, high = self.improvement_ci95
        return "beats" if low > 0.5 else "loses" if high < 0.5 else "unclear"


def compare(paths: Sequence[str | Path], metrics: Sequence[str] = ()) -> list[Entry]:
    """All entries, metric by metric, with the runs in the order given. ``metrics`` defaults to the usual ones."""
    loaded = {name: _seeds(path) for name, path in zip(names_of(paths), paths, strict=True)}
    same_env = {name: _env_of(path) == _env_of(paths[0]) for name, path in zip(loaded, paths, strict=True)}
    given = dict.fromkeys(name for seeds in loaded.values() for seed in seeds for name in seed)
    known = [name for name in given if name not in NOT_METRICS]
    for metric in metrics:
        check_name(metric, known, "metric", "Leave out --metrics to compare the usual ones.")
    entries: list[Entry] = []
    for metric in metrics or [name for name in METRICS if METRICS[name].in_comparison and name in known]:
        scores = {run: [s[metric] for s in seeds if s.get(metric) is not None] for run, seeds in loaded.items()}
        first = next(iter(scores.values()))
        entries += [
            _entry(run, metric, values, first if same_env[run] else []) for run, values in scores.items() if values
        ]
    return entries


def definition_notes(paths: Sequence[str | Path]) -> list[str]:
    """A sentence about each run whose metrics have other definitions than those of this version."""
    notes: list[str] = []
    for name, path in zip(names_of(paths), paths, strict=True):
        note = definitions_note(store.open_run(path).read_json(store.METRICS))
        if note is not None:
            notes.append(
                f"{name} holds metrics by other definitions ({note}). "
                f"Run `edl evaluate {shlex.quote(str(path))}` to compute them again."
            )
    return notes


def env_notes(paths: Sequence[str | Path]) -> list[str]:
    """A sentence about the runs that are in another env than the first run."""
    others = [name for name, path in zip(names_of(paths), paths, strict=True) if _env_of(path) != _env_of(paths[0])]
    if not others:
        return []
    named = ", ".join(others)
    return [f"these runs are in another env than the first run and are not ranked against it: {named}."]


def seed_notes(entries: Sequence[Entry]) -> list[str]:
    """A sentence about the runs with one seed, which has no interval."""
    single = list(dict.fromkeys(entry.run for entry in entries if len(entry.values) == 1))
    if not single or len(_unique(entries, "run")) == 1:
        return []
    return [
        f"one seed has no interval, so these runs are not ranked: {', '.join(single)}. Use --num-seeds in `edl run`."
    ]


def _env_of(path: str | Path) -> list[Any]:
    """What makes two runs comparable: the env, its maze, and the features and the horizon."""
    config = store.open_run(path).read_json(store.CONFIG)
    return [config.get(name) for name in ("env", "maze", "features", "horizon")]


def names_of(paths: Sequence[str | Path]) -> list[str]:
    """The shortest endings of the paths that differ from each other."""
    parts = [Path(path).absolute().parts for path in paths]
    if len(set(parts)) < len(parts):
        raise ConfigError("a run is named twice. Name each run once.")
    depth = next(d for d in range(1, max(map(len, parts)) + 1) if len({p[-d:] for p in parts}) == len(parts))
    return ["/".join(part[-depth:]) for part in parts]


def to_csv(entries: Sequence[Entry]) -> str:
    """One line per run and metric."""
    with io.StringIO() as text:
        writer = csv.writer(text, lineterminator="\n")
        better = ("improvement", "improvement_low", "improvement_high")
        writer.writerow(["run", "metric", "seeds", "mean", "iqm", "ci95_low", "ci95_high", *better])
        for e in entries:
            chance = ["", "", ""] if e.improvement_ci95 is None else [e.improvement, *e.improvement_ci95]
            writer.writerow([e.run, e.metric, len(e.values), e.mean, e.iqm, *e.ci95, *chance])
        return text.getvalue()


def to_markdown(entries: Sequence[Entry], notes: Sequence[str] = ()) -> str:
    """A row per run, a column per metric: mean and 95 % interval. The notes are below the table."""
    metrics, runs = _unique(entries, "metric"), _unique(entries, "run")
    cells = {(e.run, e.metric): mean_and_interval(e) for e in entries}
    lines = [f"| run | {' | '.join(metrics)} |", "|---" * (len(metrics) + 1) + "|"]
    lines += ["| " + " | ".join([run, *(cells.get((run, m), "-") for m in metrics)]) + " |" for run in runs]
    return "\n".join([*lines, *(f"\n{note}" for note in notes)]) + "\n"


def mean_and_interval(entry: Entry) -> str:
    """The mean and its interval; only the mean for a single seed."""
    if len(entry.values) == 1:
        return f"{entry.mean:.3f}"
    return f"{entry.mean:.3f} [{entry.ci95[0]:.3f}, {entry.ci95[1]:.3f}]"


def _entry(run: str, metric: str, values: list[float], first: list[float]) -> Entry:
    facts = aggregate([{metric: value} for value in values])[metric]
    assert facts is not None  # there are values
    low, high = facts["ci95"]
    chance, interval = None, None
    if min(len(first), len(values)) > 1 and first is not values and metric in METRICS:
        sign = METRICS[metric].sign
        x, y = ([[sign * value for value in each]] for each in (values, first))
        found = improvement_interval(x, y)
        chance, interval = probability_of_improvement(x, y), (found.low, found.high)
    return Entry(run, metric, values, facts["mean"], facts["iqm"], (low, high), chance, interval)


def _seeds(path: str | Path) -> list[dict[str, Any]]:
    """The metrics of each seed, by their present names."""
    folder = store.open_run(path)
    metrics, place = folder.read_json(store.METRICS), folder.place(store.METRICS)
    if isinstance(metrics, dict) and "per_seed" not in metrics:
        again = f"edl evaluate {shlex.quote(str(path))}"
        raise ConfigError(f"{place} has no per_seed: the run was not evaluated. Run `{again}`.")
    seeds: list[dict[str, Any]] = check_metrics(metrics, str(place))["per_seed"]
    renamed = FIRST_NAMES if definitions_of(metrics) == 1 else {}
    return [{renamed.get(name, name): value for name, value in seed.items()} for seed in seeds]


def _unique(entries: Sequence[Entry], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(entry, field) for entry in entries))

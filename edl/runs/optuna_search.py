"""`method = "optuna"`: points are chosen in batches, from the results of those before.

    SWEEP/search.json     the points of every batch; the points that a round has left. Resuming starts from here
    SWEEP/optuna.log      all results in Optuna's own journal: optuna-dashboard SWEEP/optuna.log

Every batch is chosen by a new sampler, whose seed depends on the number of the batch alone, from the recorded results.
So a sweep that was killed chooses the same points again.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edl import evaluate
from edl.config import ConfigError
from edl.runs.chunks import ChunkPoint
from edl.runs.errors import RetryableError
from edl.runs.grid import SweepGrid, with_points
from edl.runs.search import Dimension, Search, clearly_worse, round_seeds, seeds_before
from edl.runs.store import Folder

SEARCH = "search.json"
JOURNAL = "optuna.log"
POINT = "point"

RunWave = Callable[[str, Sequence[ChunkPoint]], tuple[dict[str, Any], dict[str, str]]]
"""Runs points, in chunks whose names begin with a prefix. Returns metrics, and the reasons of failures, by name."""


class Tuned(NamedTuple):
    """All points that Optuna has chosen, with their metrics over all rounds, and why points failed."""

    grid: SweepGrid
    metrics: dict[int, dict[str, Any]]
    failures: dict[int, str]


def tune(grid: SweepGrid, folder: Folder, run_wave: RunWave) -> Tuned:
    """Choose and run all points, or those that are missing."""
    search, optuna = grid.search, import_optuna()
    assert search is not None  # the caller has looked
    batches = read_batches(folder)
    metrics: dict[int, dict[str, Any]] = {}
    failures: dict[int, str] = {}
    number = 0
    while sum(len(each["values"]) for each in batches[:number]) < search.points:
        first = sum(len(each["values"]) for each in batches[:number])
        if number == len(batches):
            values = ask(optuna, grid, first, number, metrics)
            batches.append({"values": values, "kept": []})
            folder.write_json(SEARCH, batches)
        grid = with_points(grid, [row for each in batches[: number + 1] for row in each["values"]])
        chosen = grid.points[first:]
        run_batch(grid, chosen, folder, batches, number, run_wave, metrics, failures)
        keep_journal(optuna, grid, folder, metrics)
        number += 1
    return Tuned(grid, metrics, failures)


def read_batches(folder: Folder) -> list[dict[str, Any]]:
    """The batches that were chosen before."""
    found = folder.read_json(SEARCH) if folder.has(SEARCH) else []
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and {"values", "kept"} <= set(each) for each in found
    ):
        raise RetryableError(f"{folder.place(SEARCH)} is damaged: it must list the batches. Restore it from a copy.")
    return found


def run_batch(
    grid: SweepGrid,
    chosen: Sequence[Any],
    folder: Folder,
    batches: list[dict[str, Any]],
    number: int,
    run_wave: RunWave,
    metrics: dict[int, dict[str, Any]],
    failures: dict[int, str],
) -> None:
    """Run a batch, round by round. A round runs some seeds of the points that are not clearly worse than the best."""
    assert grid.search is not None
    sizes = round_seeds(chosen[0].config.num_seeds, grid.search.rounds)
    left = list(chosen)
    for round_number in range(len(sizes)):
        if round_number > 0:
            kept = batches[number]["kept"]
            if len(kept) < round_number:
                kept.append(names_left(grid, left, metrics))
                folder.write_json(SEARCH, batches)
            left = [point for point in left if point.name in kept[round_number - 1]]
        names = {folder_name(point.name, round_number): point for point in left}
        wave = [ChunkPoint(name, config_of_round(point, sizes, round_number)) for name, point in names.items()]
        found, failed = run_wave(f"{number:03d}-{round_number}-", wave) if wave else ({}, {})
        for name, point in names.items():
            if name in found:
                metrics[point.number] = joined_metrics(metrics.get(point.number), found[name])
            elif round_number == 0:
                failures[point.number] = failed[name]


def names_left(grid: SweepGrid, left: Sequence[Any], metrics: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The points that get further seeds: those that are not clearly worse than the best of the batch."""
    scores = {p.name: metrics.get(p.number, {}).get("aggregate", {}).get(grid.metric) for p in left}
    worse = clearly_worse(scores, grid.goal)
    return [name for name in scores if name not in worse]


def folder_name(name: str, round_number: int) -> str:
    """Further seeds of point 007 are in the folder 007-1."""
    return name if round_number == 0 else f"{name}-{round_number}"


def config_of_round(point: Any, sizes: Sequence[int], number: int) -> Any:
    first = point.config.seed + seeds_before(sizes, number)
    return dataclasses.replace(point.config, seed=first, num_seeds=sizes[number])


def joined_metrics(before: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of a point over the seeds of all rounds."""
    if before is None:
        return dict(new)
    per_seed = [*before["per_seed"], *new["per_seed"]]
    return {**before, "per_seed": per_seed, "num_seeds": len(per_seed), "aggregate": evaluate.aggregate(per_seed)}


def ask(
    optuna: Any, grid: SweepGrid, first: int, number: int, metrics: Mapping[int, Mapping[str, Any]]
) -> list[list[Any]]:
    """The values of the next batch. Points that are asked for and have no result yet keep others away."""
    search = grid.search
    assert search is not None
    sampler = optuna.samplers.TPESampler(
        seed=search.seed + number, constant_liar=True, n_startup_trials=search.batch, multivariate=False
    )
    study = optuna.create_study(sampler=sampler, direction=direction(grid))
    for trial in trials(optuna, grid, metrics):
        study.add_trial(trial)
    space = distributions(optuna, search)
    asked = [study.ask(space) for _ in range(min(search.batch, search.points - first))]
    return [[trial.params[each.name] for each in search.space] for trial in asked]


def trials(optuna: Any, grid: SweepGrid, metrics: Mapping[int, Mapping[str, Any]]) -> list[Any]:
    """All results as Optuna has them. A point without the metric has failed."""
    search, found = grid.search, []
    assert search is not None
    for point in grid.points:
        score = metrics.get(point.number, {}).get("aggregate", {}).get(grid.metric)
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        params = {each.name: value for each, value in zip(search.space, point.values, strict=True)}
        found.append(
            optuna.trial.create_trial(
                state=state,
                params=params,
                distributions=distributions(optuna, search),
                value=None if score is None else score["mean"],
                user_attrs={POINT: point.name},
            )
        )
    return found


def keep_journal(optuna: Any, grid: SweepGrid, folder: Folder, metrics: Mapping[int, Mapping[str, Any]]) -> None:
    """Add results to Optuna's storage, for its own tools. The sweep does not read it."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(folder.path / JOURNAL)))
    study = optuna.create_study(
        storage=storage, study_name=folder.path.name, direction=direction(grid), load_if_exists=True
    )
    known = {trial.user_attrs.get(POINT) for trial in study.get_trials(deepcopy=False)}
    for trial in trials(optuna, grid, metrics):
        if trial.user_attrs[POINT] not in known:
            study.add_trial(trial)


def distributions(optuna: Any, search: Search) -> dict[str, Any]:
    return {each.name: distribution(optuna, each) for each in search.space}


def distribution(optuna: Any, dimension: Dimension) -> Any:
    if dimension.choices:
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    if dimension.is_integer:
        return optuna.distributions.IntDistribution(dimension.low, dimension.high)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def direction(grid: SweepGrid) -> str:
    return "maximize" if grid.goal == "max" else "minimize"


def import_optuna() -> Any:
    """Optuna, without its messages."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("method = \"optuna\" needs Optuna. In a checkout, pip install '.[tune]'.") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna

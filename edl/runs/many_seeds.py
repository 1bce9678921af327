"""One run whose seeds do not fit one device: they run as chunks on an executor, and are then joined to one run.

RUN-seeds/points/NNN    runs with some of the seeds each, until all of them have finished
RUN                     the run with all seeds, as `edl run` writes it
"""

import contextlib
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from edl.config import ConfigError
from edl.runs import store
from edl.runs.chunks import ChunkPoint, plan_chunks
from edl.runs.config import RunConfig, differences, to_json
from edl.runs.dry_run import check_settings
from edl.runs.failures import FAILED
from edl.runs.interrupt import catch_interrupts
from edl.runs.pipeline import identity, plan
from edl.runs.progress import Progress
from edl.runs.resolve import Context, make_context, resolve_config, with_dataset
from edl.runs.result import Run, load_artifacts, saved_config
from edl.runs.run import execute_run, import_stages
from edl.runs.session import join_rows, read_progress
from edl.runs.store import POINTS, Folder
from edl.runs.sweep import Execution, SilentWatcher, SweepRun, SweepWatcher, chosen_lanes, make_executor, results_of


def execute_seeds(
    config: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    execution: Execution = Execution(),
    progress: Progress | None = None,
    watcher: SweepWatcher | None = None,
) -> Run:
    """Run all seeds of a config on an executor. ``resume`` continues from the markers of an earlier attempt."""
    config, place = resolve_config(config), Path(f"{out}-seeds")
    if (Path(out) / store.CONFIG).is_file() and resume:  # joined before: only the evaluation may be missing
        return execute_run(config, out=out, resume=True, progress=progress)
    store.check_free(Path(out))
    started = (place / store.CONFIG).is_file()
    if started and not resume:
        raise ConfigError(f"{str(place)!r} holds seeds of a run. Continue it with --resume, or choose another --out.")
    context = make_context(config)
    if not started:
        check_settings(config, with_dataset(config, context))
    with catch_interrupts() as interrupt, contextlib.ExitStack() as stack:
        executor = stack.enter_context(contextlib.closing(make_executor(execution, place, interrupt, progress)))
        folder = Folder(place) if started else store.create(place)
        stack.enter_context(store.locked(folder))
        if not started:
            folder.write_json(store.CONFIG, to_json(config))
        elif changed := differences(saved_config(folder), config):
            raise ConfigError(
                f"{str(place)!r} holds seeds of a run with other settings: {'; '.join(changed)}. Choose another --out."
            )
        lanes = chosen_lanes(folder, None, getattr(executor, "backend", None) or jax.default_backend())
        points = seed_points(config, lanes)
        chunks = plan_chunks([points], lanes)
        SweepRun(folder, chunks, execution, executor, interrupt, watcher or SilentWatcher()).run()
        _, failed = results_of(folder, points, chunks)
        if failed:
            raise ConfigError(f"seeds failed. {next(iter(failed.values()))}")
        join_points(config, context, [Folder(place / POINTS / each.name) for each in points], points, out)
    result = execute_run(config, out=out, resume=True, progress=progress)
    shutil.rmtree(place)
    return result


def seed_points(config: RunConfig, lanes: int) -> list[ChunkPoint]:
    """The seeds of a run as runs of at most ``lanes`` seeds each."""
    points = []
    for number, first in enumerate(range(0, config.num_seeds, lanes)):
        count = min(lanes, config.num_seeds - first)
        part = dataclasses.replace(config, seed=config.seed + first, num_seeds=count)
        points.append(ChunkPoint(f"{number:03d}", part))
    return points


def join_points(
    config: RunConfig, context: Context, folders: Sequence[Folder], points: Sequence[ChunkPoint], out: str | Path
) -> None:
    """Write a run with the finished stages of all parts, whose seeds follow each other."""
    parts = [load_artifacts(each, p.config, context) for each, p in zip(folders, points, strict=True)]
    stages = [stage for stage in plan(config) if folders[0].has(stage.file)]
    artifacts = {
        stage.name: jax.tree.map(lambda *leaves: np.concatenate(leaves), *(part[stage.name] for part in parts))
        for stage in stages
    }
    folder = import_stages(config, out, artifacts)
    logs, counts = [each.read_log() for each in folders], [point.config.num_seeds for point in points]
    rows = []
    for name in dict.fromkeys(row["stage"] for row in logs[0]):
        rows += join_rows([[row for row in log if row["stage"] == name] for log in logs], counts)
    folder.write_log(rows)
    progress = [read_progress(each) for each in folders]
    facts = {stage.name: joined_facts([each[stage.name] for each in progress]) for stage in stages}
    for stage in stages:
        facts[stage.name]["identity"] = identity(stage, config)
    folder.write_json(store.PROGRESS, facts)


def joined_facts(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is known about a stage, over all parts: seconds add up, and iterations are those of the longest."""
    spent = {name: sum(each[name] for each in parts) for name in ("seconds", "compile_seconds")}
    steps = {name: max(each[name] for each in parts) for name in ("iterations", "env_steps")}
    failed = {seed: reason for each in parts for seed, reason in each.get(FAILED, {}).items()}
    return {**spent, **steps, **({FAILED: failed} if failed else {})}

"""One run whose seeds do not fit one device: they run as chunks on an executor, and are then joined to one run.

RUN-seeds/points/NNN    runs with some of the seeds each, until all of them have finished
RUN-seeds/joined        the run with all seeds, until it is whole and becomes RUN
RUN                     the run with all seeds, as `edl run` writes it
"""

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError
from edl.envs.host import using_hosts
from edl.runs import store
from edl.runs.chunks import ChunkPoint, plan_chunks
from edl.runs.config import RunConfig, differences, to_json
from edl.runs.dry_run import dry_run
from edl.runs.failures import FAILED, blanked
from edl.runs.interrupt import catch_interrupts
from edl.runs.pipeline import identity, plan
from edl.runs.progress import Progress
from edl.runs.resolve import Context, make_context, resolve_config, with_dataset
from edl.runs.result import Run, load_artifacts, saved_config
from edl.runs.run import execute_run, import_stages
from edl.runs.session import join_rows, read_progress, valid_stages
from edl.runs.store import POINTS, Folder
from edl.runs.sweep import Execution, SilentWatcher, SweepRun, SweepWatcher, chosen_lanes, make_executor, results_of

JOINED = "joined"
SECONDS = "seconds.json"


def execute_seeds(
    config: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    execution: Execution = Execution(),
    progress: Progress | None = None,
    watcher: SweepWatcher | None = None,
) -> Run:
    """Run all seeds of a config on an executor. ``resume`` continues from the markers of an earlier attempt.

    If workers spend more seconds on compiling and the stages than pass on the wall clock, because many of them work at
    the same time, the wall-clock time until the seeds are joined, over all attempts that were not killed, is divided
    among compiling and the stages. Starting workers is not part of the times.
    """
    began = time.perf_counter()
    config, out, place = resolve_config(config), Path(out), seeds_folder(out)
    if (out / store.CONFIG).is_file() and resume:
        check_joined(config, out)
        return evaluate_joined(config, out, place, progress)
    store.check_free(out)
    started = (place / store.CONFIG).is_file()
    if started and not resume:
        raise ConfigError(f"{str(place)!r} holds seeds of a run. Continue it with --resume, or choose another --out.")
    if resume and not started:
        raise ConfigError(f"{str(out)!r} and {str(place)!r} hold no run. Check --out, or leave out --resume.")
    context = make_context(config)
    if not started:
        dry_run(config, with_dataset(config, context))
    with catch_interrupts() as interrupt, using_hosts(context.env), contextlib.ExitStack() as stack:
        executor = make_executor(execution, place, interrupt, progress, [context.env])
        stack.enter_context(contextlib.closing(executor))
        folder = Folder(place) if started else store.create(place)
        stack.enter_context(store.locked(folder))
        if not started:
            folder.write_json(store.CONFIG, to_json(config))
        elif changed := differences(saved_config(folder), config):
            raise ConfigError(
                f"{str(place)!r} holds seeds of a run with other settings: {'; '.join(changed)}. Choose another --out."
            )
        clock = stack.enter_context(SavedClock(folder, began))
        lanes = chosen_lanes(folder, None, executor.backend or jax.default_backend())
        points = seed_points(config, lanes)
        chunks = plan_chunks([points], lanes)
        SweepRun(folder, chunks, execution, executor, interrupt, watcher or SilentWatcher()).run()
        _, failed = results_of(folder, points, chunks)
        if len(failed) == len(points):
            raise ConfigError(f"all seeds failed. {next(iter(failed.values()))}")
        parts = [
            read_seeds(Folder(place / POINTS / each.name), each, context, failed.get(each.name)) for each in points
        ]
        shutil.rmtree(place / JOINED, ignore_errors=True)  # left by an attempt that was killed
        store.move_run(join_seeds(config, parts, place / JOINED, clock.seconds), out)
        interrupt.check()
    return evaluate_joined(config, out, place, progress)


def seeds_folder(out: str | Path) -> Path:
    """RUN-seeds, on the file system of RUN."""
    path = Path(out)
    return Path(f"{path.resolve() if path.is_symlink() else path}-seeds")


def check_joined(config: RunConfig, out: Path) -> None:
    """Reject a run of these settings that has unfinished stages: its seeds were started together, in one process."""
    folder = store.open_run(out)
    kept = valid_stages(config, folder)
    missing = [stage.name for stage in plan(config) if not stage.temporary and stage.name not in kept]
    if missing and not differences(saved_config(folder), config):
        raise ConfigError(
            f"{str(out)!r} holds a run that was started with --executor local and has not finished stage "
            f"{missing[0]!r}. Resume it without --executor."
        )


def evaluate_joined(config: RunConfig, out: Path, place: Path, progress: Progress | None) -> Run:
    """Evaluate a joined run, unless that is done, and delete the folder of its seeds."""
    result = execute_run(config, out=out, resume=True, progress=progress)
    with contextlib.suppress(ConfigError):  # a folder that is not that of these seeds is left alone
        if not differences(saved_config(store.open_run(place)), config):
            shutil.rmtree(place)
    return result


class SavedClock:
    """The wall-clock seconds since ``began`` and of earlier attempts, which are in a file of the folder."""

    def __init__(self, folder: Folder, began: float):
        self.folder, self.began = folder, began
        self.earlier = read_seconds(folder)

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.began

    def __enter__(self) -> "SavedClock":
        return self

    def __exit__(self, *error: object) -> None:
        self.folder.write_json(SECONDS, {"seconds": self.seconds})


def read_seconds(folder: Folder) -> float:
    """The seconds of earlier attempts; 0 if they are not known."""
    found = folder.read_json(SECONDS) if folder.has(SECONDS) else {}
    seconds = found.get("seconds") if isinstance(found, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else 0.0


def seed_points(config: RunConfig, lanes: int) -> list[ChunkPoint]:
    """The seeds of a run as runs of at most ``lanes`` seeds each."""
    points = []
    for number, first in enumerate(range(0, config.num_seeds, lanes)):
        count = min(lanes, config.num_seeds - first)
        part = dataclasses.replace(config, seed=config.seed + first, num_seeds=count)
        points.append(ChunkPoint(f"{number:03d}", part))
    return points


class FinishedSeeds(NamedTuple):
    """Some seeds of the run: the stages that they have finished, and why all of them failed in the next one."""

    config: RunConfig
    artifacts: dict[str, PyTree]
    rows: list[dict[str, Any]]
    facts: dict[str, dict[str, Any]]
    failed: str | None


def read_seeds(folder: Folder, point: ChunkPoint, context: Context, failed: str | None) -> FinishedSeeds:
    """The results of some seeds, from their folder."""
    artifacts, facts = load_artifacts(folder, point.config, context), read_progress(folder)
    reason = None if failed is None else failed.removeprefix(f"{point.name}: ")
    return FinishedSeeds(
        point.config,
        {name: each for name, each in artifacts.items() if name in facts},
        folder.read_log(),
        facts,
        reason,
    )


def join_seeds(config: RunConfig, parts: Sequence[FinishedSeeds], out: Path, seconds: float) -> Folder:
    """Write a run with the stages of all parts, whose seeds follow each other. Failed seeds have NaN.

    ``seconds`` is the wall-clock time within which the workers ran the stages.
    """
    good = next(part for part in parts if part.failed is None)
    stages = [stage for stage in plan(config) if stage.name in good.artifacts and not stage.temporary]
    parts = [part if part.failed is None else filled(part, good, [stage.name for stage in stages]) for part in parts]
    artifacts = {
        stage.name: jax.tree.map(
            lambda *leaves: np.concatenate(leaves), *(part.artifacts[stage.name] for part in parts)
        )
        for stage in stages
    }
    folder = import_stages(config, out, artifacts)
    facts = {stage.name: joined_facts([part.facts[stage.name] for part in parts]) for stage in stages}
    worked = sum(each["seconds"] + each["compile_seconds"] for each in facts.values())
    share = min(seconds / worked, 1.0) if worked else 0.0
    rows, counts = [], [part.config.num_seeds for part in parts]
    for name in dict.fromkeys(row["stage"] for row in good.rows):
        joined = join_rows([[row for row in part.rows if row["stage"] == name] for part in parts], counts)
        rows += [{**row, "seconds": round(share * row["seconds"], 3)} for row in joined]
    folder.write_log(rows)
    for stage in stages:
        times = {name: share * facts[stage.name][name] for name in ("seconds", "compile_seconds")}
        facts[stage.name] |= {"identity": identity(stage, config), **times}
    folder.write_json(store.PROGRESS, facts)
    return folder


def filled(part: FinishedSeeds, good: FinishedSeeds, stages: Sequence[str]) -> FinishedSeeds:
    """A failed part with NaN in the stages that it has not finished, which ``good`` has."""
    assert part.failed is not None
    missing, seeds = [name for name in stages if name not in part.artifacts], part.config.num_seeds
    artifacts, facts, rows = dict(part.artifacts), dict(part.facts), list(part.rows)
    for name in missing:
        copies = jax.tree.map(lambda leaf: np.asarray(leaf)[[0] * seeds], good.artifacts[name])
        artifacts[name] = blanked(copies, range(seeds))
        reasons = {str(part.config.seed + index): part.failed for index in range(seeds)}
        facts[name] = {"seconds": 0.0, "compile_seconds": 0.0, "iterations": 0, "env_steps": 0, FAILED: reasons}
        own = [row for row in good.rows if row["stage"] == name]
        rows = [row for row in rows if row["stage"] != name]
        rows += [{key: [None] * seeds if isinstance(v, list) else v for key, v in row.items()} for row in own]
    return part._replace(artifacts=artifacts, facts=facts, rows=rows)


def joined_facts(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is known about a stage, over all parts. Seconds of workers add up; iterations are those of the longest."""
    spent = {name: sum(each[name] for each in parts) for name in ("seconds", "compile_seconds")}
    steps = {name: max(each[name] for each in parts) for name in ("iterations", "env_steps")}
    failed = {seed: reason for each in parts for seed, reason in each.get(FAILED, {}).items()}
    return {**spent, **steps, **({FAILED: failed} if failed else {})}

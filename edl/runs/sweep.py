"""A grid of runs as one vmapped program: `sweep` writes a run folder per point, a table and a heat map.

Points whose identity at a stage agrees share that stage: if points differ only in how they learn, every seed explores
and discovers once for all of them. Everything else runs for all points and seeds together, on all devices. A finished
stage is written to the folders of its points at once, so a stopped sweep can be resumed: artifacts on disk with the
right identity are not computed again.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError
from edl.runs import evaluation, store, tensors
from edl.runs.config import differences
from edl.runs.driver import Tick, Work, lane_mesh, outline
from edl.runs.grid import Point, SweepGrid
from edl.runs.interrupt import Interrupt, catch_interrupts
from edl.runs.lanes import LaneBatch, run_lanes
from edl.runs.pipeline import Stage, identity, outlines, plan, stage_keys, work_of
from edl.runs.progress import Progress, SilentProgress, StageProgress
from edl.runs.resolve import Context, make_context, with_dataset
from edl.runs.result import load, saved_config
from edl.runs.run import create_run, write_provenance
from edl.runs.session import (
    env_steps_of,
    load_artifact,
    log_row,
    needed_stages,
    read_progress,
    seconds_of,
    valid_stages,
)
from edl.runs.store import Folder
from edl.runs.summary import Summary, publish, scores_of, summarise

POINTS = "points"
"""The folder of the runs, in the folder of the sweep."""
SWEEP = "sweep.json"
"""The grid as the user wrote it."""


class SweepContext(NamedTuple):
    """What all groups of a sweep share."""

    devices: list[Any]
    interrupt: Interrupt
    progress: Progress
    max_lanes: int | None


class GroupPoint(NamedTuple):
    """A point whose run is under way: its folder, and the stages it has finished."""

    point: Point
    folder: Folder
    finished: dict[str, dict[str, Any]]


def sweep(
    grid: SweepGrid,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    devices: Sequence[Any] | None = None,
    max_lanes: int | None = None,
) -> Summary:
    """Run every point of a grid. ``max_lanes`` limits how many lanes run at a time; memory does so anyway."""
    for group in () if resume else grid.groups:  # the dry run: reject bad points before anything is written
        outlines(group[0].config, with_dataset(group[0].config, make_context(group[0].config)))
    folder = open_sweep(grid, out) if resume else create_sweep(grid, out)
    metrics: dict[int, dict[str, Any]] = {}
    with catch_interrupts() as interrupt, store.locked(folder):
        chosen = jax.devices() if devices is None else list(devices)
        context = SweepContext(chosen, interrupt, progress or SilentProgress(), max_lanes)
        for number, group in enumerate(grid.groups, 1):
            title = f" {number}/{len(grid.groups)}" if len(grid.groups) > 1 else ""
            points = [open_point(point, folder.path / POINTS) for point in group]
            run_group(points, context, title)
            context.progress.stage_started(f"evaluate{title}", 0)
            for point in points:
                metrics[point.point.number] = interrupt.run_interruptible(lambda point=point: evaluate_point(point))
            context.progress.stage_finished(f"evaluate{title}")
        summary = summarise(grid, metrics)
        interrupt.run_interruptible(lambda: write_summary(folder, summary))
    return summary


def create_sweep(grid: SweepGrid, out: str | Path) -> Folder:
    if (Path(out) / SWEEP).is_file():
        raise ConfigError(
            f"output folder {str(out)!r} already holds a sweep. Continue it with --resume, or choose another --out."
        )
    folder = store.create(out)
    folder.write_json(SWEEP, grid.content)
    return folder


def open_sweep(grid: SweepGrid, out: str | Path) -> Folder:
    """The folder of a sweep that was started before, with the same grid."""
    if not (Path(out) / SWEEP).is_file():
        return create_sweep(grid, out)
    folder = Folder(Path(out))
    if folder.read_json(SWEEP) != store.plain(grid.content):
        raise ConfigError(
            f"{str(out)!r} holds a sweep of another grid. Resume with the same file, or choose another --out."
        )
    return folder


def open_point(point: Point, root: Path) -> GroupPoint:
    """The run folder of a point, new or as an earlier session left it."""
    path = root / point.name
    if not (path / store.CONFIG).is_file():
        return GroupPoint(point, create_run(point.config, path), {})
    folder = store.open_run(path)
    changed = differences(saved_config(folder), point.config)
    if changed:
        raise ConfigError(f"{str(path)!r} holds a run with other settings: {'; '.join(changed)}. Choose another --out.")
    write_provenance(folder)
    return GroupPoint(point, folder, valid_stages(point.config, folder))


def run_group(points: Sequence[GroupPoint], context: SweepContext, title: str = "") -> None:
    """Run all unfinished stages of points that differ only in traced numbers."""
    config = points[0].point.config
    stages = plan(config)
    points = [each for each in points if stages[-1].name not in each.finished]
    needed = [needed_stages(stages, each.finished) for each in points]
    where = make_context(config)
    if any("explore" not in each.finished for each in points):
        where = with_dataset(config, where)
    artifacts: dict[str, SharedArtifact] = {}
    for stage in stages:
        users = [each for each, names in zip(points, needed, strict=True) if stage.name in names]
        if users:
            artifacts[stage.name] = run_shared(stage, users, artifacts, where, context, stage.name + title)


class SharedArtifact:
    """The artifacts of one stage for all points, one copy per identity, on the host."""

    def __init__(self, num_seeds: int):
        self.num_seeds = num_seeds
        self.by_identity: dict[str, PyTree] = {}
        self.identities: dict[int, str] = {}

    def of(self, points: Sequence[GroupPoint]) -> PyTree:
        """The artifacts for these points: all seeds of the first point, then all seeds of the second, ..."""
        chosen = [self.by_identity[self.identities[each.point.number]] for each in points]
        return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *chosen)


def run_shared(
    stage: Stage,
    points: Sequence[GroupPoint],
    artifacts: Mapping[str, SharedArtifact],
    where: Context,
    context: SweepContext,
    title: str,
) -> SharedArtifact:
    """One stage for all points: load the identities that are on disk, and run the others together."""
    shared = SharedArtifact(points[0].point.config.num_seeds)
    owners: dict[str, list[GroupPoint]] = {}
    for each in points:
        key = identity(stage, each.point.config)
        shared.identities[each.point.number] = key
        owners.setdefault(key, []).append(each)
    missing: list[list[GroupPoint]] = []
    for key, users in owners.items():
        done = next((each for each in users if stage.name in each.finished), None)
        if done is None:
            missing.append(users)
            continue
        inputs = {name: each.of([done]) for name, each in artifacts.items() if name in stage.takes}
        shared.by_identity[key] = jax.device_get(load_artifact(done.folder, stage, done.point.config, where, inputs))
        facts, rows = done.finished[stage.name], [r for r in done.folder.read_log() if r.get("stage") == stage.name]
        for each in users:
            if stage.name not in each.finished:
                record(stage, each, shared.by_identity[key], facts, rows)
    if missing:
        run_missing(stage, missing, shared, artifacts, where, context, title)
    return shared


def run_missing(
    stage: Stage,
    missing: Sequence[Sequence[GroupPoint]],
    shared: SharedArtifact,
    artifacts: Mapping[str, SharedArtifact],
    where: Context,
    context: SweepContext,
    title: str,
) -> None:
    """Run a stage for one point of every missing identity, and write the result to all points of that identity."""
    first = [users[0] for users in missing]
    config, num_seeds = first[0].point.config, shared.num_seeds
    inputs = {name: each.of(first) for name, each in artifacts.items() if name in stage.takes}
    for each in first:
        stage.check_inputs(each.point.config, {name: artifacts[name].of([each]) for name in inputs})
    work = with_stacked_settings(work_of(stage, config, where, inputs), stage, first, num_seeds)
    keys = jnp.tile(stage_keys(config, stage.name), len(first))
    facts = outline(work, keys.shape[0])
    context.progress.stage_started(title, facts.iterations)

    def on_tick(tick: Tick, batch: int, batches: int, width: int) -> None:
        means = {name: float(np.mean(value)) for name, value in tick.metrics.items()}
        reached = batch * facts.iterations + tick.position.iteration
        update = StageProgress(reached, batches * facts.iterations, tick.rate, facts.env_steps * width, means)
        context.progress.stage_advanced(title, update)
        context.interrupt.check()

    mesh = lane_mesh(min(keys.shape[0], context.max_lanes or keys.shape[0]), work.inputs, context.devices)
    finished: list[LaneBatch] = []
    recorded = 0
    for batch in run_lanes(
        work,
        keys,
        mesh=mesh,
        run_interruptible=context.interrupt.run_interruptible,
        on_tick=on_tick,
        max_lanes=context.max_lanes,
    ):
        finished.append(batch)
        done = (int(batch.lanes[-1]) + 1) // num_seeds
        for index in range(recorded, done):
            users = missing[index]
            result = point_result(stage, finished, users[0].point, index * num_seeds, num_seeds)
            shared.by_identity[identity(stage, users[0].point.config)] = result.artifact
            for each in users:
                record(stage, each, result.artifact, result.facts, result.rows)
        recorded = done
        finished = [each for each in finished if each.lanes[-1] >= done * num_seeds]  # the others are recorded
    context.progress.stage_finished(title)


def with_stacked_settings(work: Work, stage: Stage, points: Sequence[GroupPoint], repeats: int) -> Work:
    """The same work with settings per lane: configs whose floats are arrays, each repeated for every seed."""
    settings = [stage.settings(each.point.config) for each in points]
    if not jax.tree.leaves(settings[0]):
        return work
    stacked = jax.tree.map(lambda *leaves: np.repeat(np.array(leaves, np.float32), repeats), *settings)
    return work._replace(inputs=(*work.inputs[:-1], stacked), per_lane=(*work.per_lane[:-1], True))


class PointResult(NamedTuple):
    """One stage of one point: its artifact, what it took, and its rows of the log."""

    artifact: PyTree
    facts: dict[str, Any]
    rows: list[dict[str, Any]]


def point_result(stage: Stage, batches: Sequence[LaneBatch], point: Point, begin: int, num_seeds: int) -> PointResult:
    """The lanes ``begin`` to ``begin + num_seeds`` of the batches, which may span several of them."""
    parts, logs, seconds, compile_seconds = [], [], 0.0, 0.0
    batches = [batch for batch in batches if batch.lanes[0] < begin + num_seeds and batch.lanes[-1] >= begin]
    for batch in batches:
        inside = np.flatnonzero((batch.lanes >= begin) & (batch.lanes < begin + num_seeds))
        share = len(inside) / len(batch.lanes)
        seconds, compile_seconds = seconds + share * batch.seconds, compile_seconds + share * batch.compile_seconds
        parts.append(jax.tree.map(lambda leaf, inside=inside: leaf[inside], batch.artifact))
        logs.append([{k: v if k == "iteration" else v[inside] for k, v in row.items()} for row in batch.rows])
    artifact = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    if stage.finite:
        tensors.check_finite(artifact, f"the result of stage {stage.name!r} at point {point.name}")
    stage.check_artifact(point.config, artifact)
    iterations, env_steps = max(batch.iterations for batch in batches), batches[0].env_steps
    rows = [
        log_row(
            stage.name,
            row["iteration"],
            row["iteration"] * env_steps,
            seconds * row["iteration"] / iterations,
            {name: value for name, value in row.items() if name != "iteration"},
        )
        for row in joined_rows(logs)
    ]
    spent = {"seconds": seconds, "compile_seconds": compile_seconds}
    steps = {"iterations": iterations, "env_steps": iterations * env_steps}
    return PointResult(artifact, {"identity": identity(stage, point.config), **spent, **steps}, rows)


def joined_rows(logs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The logs of several batches as one. A batch that ended early repeats its last row."""
    rows = []
    for i, row in enumerate(max(logs, key=len)):
        parts = [log[min(i, len(log) - 1)] for log in logs]
        values = {name: np.concatenate([part[name] for part in parts]) for name in row if name != "iteration"}
        rows.append({"iteration": row["iteration"], **values})
    return rows


def record(stage: Stage, each: GroupPoint, artifact: PyTree, facts: dict[str, Any], rows: list[dict]) -> None:
    """Write a finished stage to the folder of a point. Temporary artifacts are large and stay in memory."""
    each.finished[stage.name] = facts
    log = [row for row in each.folder.read_log() if row.get("stage") != stage.name]
    each.folder.write_log([*log, *rows])
    if not stage.temporary:
        each.folder.save(stage.file, artifact)
    each.folder.write_json(store.PROGRESS, each.finished)


def evaluate_point(each: GroupPoint) -> dict[str, Any]:
    """The metrics of a finished point: read if they are there, and computed otherwise. Figures are left out."""
    if "evaluate" in read_progress(each.folder) and each.folder.has(store.METRICS):
        return each.folder.read_json(store.METRICS)
    began = time.perf_counter()
    run = load(each.folder.path)
    found = evaluation.evaluate_run(run)
    spent = {"seconds": time.perf_counter() - began, "compile_seconds": 0.0}
    facts = {**read_progress(each.folder), "evaluate": spent}
    metrics = store.plain(evaluation.metrics_of(run, found, env_steps_of(facts), seconds_of(facts)))
    each.folder.write_json(store.METRICS, metrics)
    each.folder.write_json(store.PROGRESS, facts)
    return metrics


def write_summary(folder: Folder, summary: Summary) -> None:
    """Write the tables, the heat map, and the figures and report of the best point."""
    publish(folder, summary, draw_heat_map(summary))
    if summary.best is not None:
        best = load(folder.path / POINTS / summary.grid.points[summary.best].name)
        assert best.path is not None
        pictures = evaluation.draw_figures(best, evaluation.evaluate_run(best))
        evaluation.write_report(store.open_run(best.path), best.metrics or {}, pictures)


def draw_heat_map(summary: Summary) -> bytes:
    """The heat map as PNG."""
    from edl import figures
    from edl.figures.heatmap import heat_map

    grid, best = summary.grid, None
    scores = scores_of(summary)
    if summary.best is not None:
        best = tuple(int(i) for i in np.unravel_index(summary.best, scores.shape))
    labels, values = [axis.label for axis in grid.axes], [[_short(v) for v in axis.values] for axis in grid.axes]
    title = f"{grid.metric} on {grid.points[0].config.env}"
    return figures.to_png(heat_map(labels, values, scores, title, best, grid.goal == "min"))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

"""Many runs as lanes of one program: runs that differ only in floats, seeds or the maze share every compiled stage.

A *point* is one such run, e.g. one combination of settings of a sweep. `run_group` runs all stages of its points: each
point has one lane per seed. Points whose identity at a stage agrees share that stage: if points differ only in how they
learn, every seed explores and discovers once for all of them. Mazes are padded to one shape and become an input of each
lane, so fifty mazes are one program. A finished stage is written to the folders of its points at once, so work that was
stopped can be resumed: artifacts on disk with the right identity are not computed again.

A point that fails, e.g. because a learning rate is so high that its weights are no longer finite, does not stop the
others: `RunPoint.failures` has the message.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, PyTree

from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.maze import Maze, pad_to_shape, shape_of
from edl.evaluate.metrics import definitions_note
from edl.interop.env_names import is_maze
from edl.runs import evaluation, store
from edl.runs.binding import save_artifact
from edl.runs.config import NESTED, RunConfig, differences, own_fields
from edl.runs.driver import Tick, Work, lane_mesh, lanes_at_a_time, outline
from edl.runs.evaluation import Evaluation
from edl.runs.failures import blanked, failed_seeds, from_facts, repaired, to_facts
from edl.runs.interrupt import Interrupt
from edl.runs.lanes import (
    LaneBatch,
    LaneCheckpoints,
    LanePlacement,
    LaneRunner,
    NoCheckpoints,
    even_placement,
    run_lanes,
)
from edl.runs.pipeline import Stage, has_explored, identity, plan, stage_keys, work_of
from edl.runs.progress import Progress, StageProgress
from edl.runs.resolve import Context, make_context, with_dataset
from edl.runs.result import Run, load_artifacts, run_of, saved_config
from edl.runs.run import write_provenance, write_start
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

Measure = Callable[[Run, Evaluation], Mapping[str, Any]]
"""Computes further numbers of a run, which metrics.json does not have."""


class FixedLanes(NamedTuple):
    """Lanes keep their places in programs of fixed ``widths``, one per stage, on one device.

    A stage that one of the points has not finished then runs for all of them, so that the bits do not depend on what an
    earlier process has finished. ``checkpoints`` keeps the position of a stage, for the identities of its lanes.
    """

    widths: Mapping[str, int]
    checkpoints: Callable[[str], LaneCheckpoints]


class LaneContext(NamedTuple):
    """What all groups of a process share."""

    devices: list[Any]
    interrupt: Interrupt
    progress: Progress
    fixed: FixedLanes | None = None


class RunPoint(NamedTuple):
    """A run under way: its name in messages, its folder, the stages it has finished, and why it failed, if it did."""

    name: str
    config: RunConfig
    folder: Folder
    finished: dict[str, dict[str, Any]]
    failures: list[str]

    @property
    def lanes(self) -> int:
        return self.config.num_seeds


def program_key(config: RunConfig) -> Hashable:
    """What the programs of a run are compiled for. Runs with the same key can be points of one group.

    They may differ in floats, in their seeds, and in their maze.
    """
    varying = (*NESTED, "env", "maze", "seed", "num_seeds")
    fixed = tuple((name, getattr(config, name)) for name in own_fields(config) if name not in varying)
    nested = tuple(jax.tree.structure(getattr(config, name)) for name in NESTED)
    return None if is_maze(config.env) else (config.env, config.maze), fixed, nested


def open_point(name: str, config: RunConfig, path: Path) -> RunPoint:
    """The run folder of a point, new or as an earlier process left it."""
    if not (path / store.CONFIG).is_file():
        folder = store.create(path)  # without a lock of its own: the caller has locked the folder above it
        write_start(folder, config)
        return RunPoint(name, config, folder, {}, [])
    folder = store.open_run(path)
    changed = differences(saved_config(folder), config)
    if changed:
        raise ConfigError(f"{str(path)!r} holds a run with other settings: {'; '.join(changed)}. Choose another --out.")
    write_provenance(folder)
    return RunPoint(name, config, folder, valid_stages(config, folder), [])


def group_contexts(configs: Sequence[RunConfig]) -> dict[Hashable, Context]:
    """The contexts of the runs of a group, by `env_key`. If they have several mazes, these have one shape."""
    found = {env_key(config): make_context(config) for config in configs}
    if len(found) == 1:
        return found
    shape = shape_of([as_maze(each.env) for each in found.values()])
    return {key: each._replace(env=pad_to_shape(as_maze(each.env), shape)) for key, each in found.items()}


def env_key(config: RunConfig) -> Hashable:
    return config.env, config.maze


def as_maze(env: Env) -> Maze:
    assert isinstance(env, Maze)  # `program_key` lets no other envs into one group
    return env


def run_group(
    points: Sequence[RunPoint],
    contexts: Mapping[Hashable, Context],
    context: LaneContext,
    title: str = "",
    until: str | None = None,
) -> None:
    """Run all unfinished stages, up to ``until``, of points with the same `program_key`."""
    stages = plan(points[0].config, until)
    points = [each for each in points if not each.failures]
    if context.fixed is None:
        points = [each for each in points if stages[-1].name not in each.finished]
        needed = {each.name: needed_stages(stages, each.finished) for each in points}
    else:
        by_all = set.intersection(*(set(each.finished) for each in points)) if points else set()
        points = [] if stages[-1].name in by_all else points
        needed = dict.fromkeys([each.name for each in points], needed_stages(stages, dict.fromkeys(by_all)))
    contexts = dict(contexts)
    for each in points:
        if not has_explored(each.config, each.finished):
            contexts[env_key(each.config)] = with_dataset(each.config, contexts[env_key(each.config)])
    artifacts: dict[str, SharedArtifact] = {}
    for stage in stages:
        users = [each for each in points if stage.name in needed[each.name] and not each.failures]
        if users:
            artifacts[stage.name] = run_shared(stage, users, artifacts, contexts, context, stage.name + title)


class SharedArtifact:
    """The artifacts of one stage for all points, one copy per identity, on the host."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self.by_identity: dict[str, PyTree] = {}

    def of(self, points: Sequence[RunPoint]) -> PyTree:
        """The artifacts for these points: all seeds of the first point, then all seeds of the second, ..."""
        chosen = [self.by_identity[identity(self.stage, each.config)] for each in points]
        return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *chosen)


def run_shared(
    stage: Stage,
    points: Sequence[RunPoint],
    artifacts: Mapping[str, SharedArtifact],
    contexts: Mapping[Hashable, Context],
    context: LaneContext,
    title: str,
) -> SharedArtifact:
    """One stage for all points: load the identities that are on disk, and run the others together."""
    shared = SharedArtifact(stage)
    owners: dict[str, list[RunPoint]] = {}
    for each in points:
        owners.setdefault(identity(stage, each.config), []).append(each)
    missing: list[list[RunPoint]] = []
    again = context.fixed is not None and any(stage.name not in each.finished for each in points)
    for key, users in owners.items():
        done = next((each for each in users if stage.name in each.finished), None)
        if done is None or again:
            missing.append(users)
            continue
        inputs, where = inputs_for(stage, artifacts, [done]), contexts[env_key(done.config)]
        artifact = jax.device_get(load_artifact(done.folder, stage, done.config, where, inputs))
        shared.by_identity[key] = without_failed(done, artifact)
        facts, rows = done.finished[stage.name], [r for r in done.folder.read_log() if r.get("stage") == stage.name]
        for each in users:
            if stage.name not in each.finished:
                record(stage, each, artifact, facts, rows)
    missing = [users for users in missing if accepts_inputs(stage, users, artifacts)]
    if missing:
        run_missing(stage, missing, shared, artifacts, contexts, context, title)
    return shared


def without_failed(point: RunPoint, artifact: PyTree) -> PyTree:
    """The artifact as input of later stages: a good seed takes the place of a failed one."""
    return repaired(artifact, from_facts(point.finished, point.config), point.lanes)


def inputs_for(stage: Stage, artifacts: Mapping[str, SharedArtifact], points: Sequence[RunPoint]) -> dict[str, PyTree]:
    """The artifacts that a stage takes, for these points."""
    return {name: each.of(points) for name, each in artifacts.items() if name in stage.takes}


def accepts_inputs(stage: Stage, users: Sequence[RunPoint], artifacts: Mapping[str, SharedArtifact]) -> bool:
    """Whether a stage can run on the artifacts of these points. If not, they have failed."""
    try:
        stage.check_inputs(users[0].config, inputs_for(stage, artifacts, users[:1]))
    except ConfigError as error:
        fail(users, error)
        return False
    return True


def fail(users: Sequence[RunPoint], error: ConfigError) -> None:
    for each in users:
        each.failures.append(f"{each.name}: {error}")


def run_missing(
    stage: Stage,
    missing: Sequence[Sequence[RunPoint]],
    shared: SharedArtifact,
    artifacts: Mapping[str, SharedArtifact],
    contexts: Mapping[Hashable, Context],
    context: LaneContext,
    title: str,
) -> None:
    """Run a stage for one point of every missing identity, and write the result to all points of that identity."""
    first = [users[0] for users in missing]
    where = contexts[env_key(first[0].config)]
    work = work_of(stage, first[0].config, where, inputs_for(stage, artifacts, first))
    work = with_stacked_settings(with_stacked_envs(work, first, contexts), stage, first)
    keys = jnp.concatenate([stage_keys(each.config, stage.name) for each in first])
    facts = outline(work, keys.shape[0])
    context.progress.stage_started(title, facts.iterations)

    def on_tick(tick: Tick, batch: int, batches: int, width: int) -> None:
        means = {name: float(np.mean(value)) for name, value in tick.metrics.items()}
        reached = batch * facts.iterations + tick.position.iteration
        update = StageProgress(reached, batches * facts.iterations, tick.rate, facts.env_steps * width, means)
        context.progress.stage_advanced(title, update)
        if not tick.done:  # no checkpoint follows the last tick: the result is recorded first
            context.interrupt.check()

    begins = np.cumsum([0, *(each.lanes for each in first)])
    placement, mesh, checkpoints = lanes_of(stage, first, work, context)
    most = None if context.fixed is not None else lanes_at_a_time(len(keys), work.inputs)
    runner = LaneRunner(mesh, context.interrupt.run_interruptible, on_tick, most, checkpoints)
    waiting, finished = list(range(len(first))), []
    for batch in run_lanes(work, keys, placement, runner):
        finished.append(batch)
        known = np.concatenate([each.lanes for each in finished])
        for number in [i for i in waiting if np.isin(np.arange(begins[i], begins[i + 1]), known).all()]:
            write_result(stage, finished, missing[number], int(begins[number + 1]), shared)
            waiting.remove(number)
        wanted = np.concatenate([np.arange(begins[i], begins[i + 1]) for i in waiting] or [[]])
        finished = [each for each in finished if np.isin(each.lanes, wanted).any()]  # the others are recorded
    context.progress.stage_finished(title)
    context.interrupt.check()


def lanes_of(
    stage: Stage, points: Sequence[RunPoint], work: Work, context: LaneContext
) -> tuple[LanePlacement, Mesh | None, LaneCheckpoints]:
    """Which lanes run side by side, and on which devices: all of them on all devices, or in fixed places on one."""
    total, fixed = sum(each.lanes for each in points), context.fixed
    if fixed is not None:
        key = ",".join(identity(stage, each.config) for each in points)
        placement = LanePlacement((np.arange(total),), fixed.widths[stage.name])
        return placement, None, fixed.checkpoints(f"{stage.name}:{key}")
    mesh = lane_mesh(total, work.inputs, context.devices)
    return even_placement(total, 1 if mesh is None else mesh.size), mesh, NoCheckpoints()


def write_result(
    stage: Stage, batches: Sequence[LaneBatch], users: Sequence[RunPoint], end: int, shared: SharedArtifact
) -> None:
    """Write the result of a stage, whose last lane is number ``end - 1``, to all points that share it."""
    try:
        result = point_result(stage, batches, users[0], end - users[0].lanes)
    except ConfigError as error:
        fail(users, error)
        return
    for each in users:
        if stage.name not in each.finished:
            record(stage, each, result.artifact, result.facts, result.rows)
    shared.by_identity[identity(stage, users[0].config)] = without_failed(users[0], result.artifact)


def with_stacked_envs(work: Work, points: Sequence[RunPoint], contexts: Mapping[Hashable, Context]) -> Work:
    """The same work with an env per lane, if the group has several. Every env is repeated for every seed."""
    if len(contexts) == 1:
        return work
    envs = [contexts[env_key(each.config)].env for each in points]
    return work._replace(inputs=(stacked(envs, points), *work.inputs[1:]), per_lane=(True, *work.per_lane[1:]))


def with_stacked_settings(work: Work, stage: Stage, points: Sequence[RunPoint]) -> Work:
    """The same work with settings per lane: configs whose floats are arrays, each repeated for every seed."""
    settings = [stage.settings(each.config) for each in points]
    if not jax.tree.leaves(settings[0]):
        return work
    settings = jax.tree.map(lambda leaf: np.float32(leaf), settings)
    return work._replace(inputs=(*work.inputs[:-1], stacked(settings, points)), per_lane=(*work.per_lane[:-1], True))


def stacked(trees: Sequence[PyTree], points: Sequence[RunPoint]) -> PyTree:
    """One tree per point as one tree with a leading axis of lanes."""
    lanes = [each.lanes for each in points]
    return jax.tree.map(lambda *leaves: np.repeat(np.stack(leaves), lanes, axis=0), *trees)


class PointResult(NamedTuple):
    """One stage of one point: its artifact, what it took, and its rows of the log.

    Its seconds are its share of the wall-clock time of its device: those of all points on a device add up to it.
    """

    artifact: PyTree
    facts: dict[str, Any]
    rows: list[dict[str, Any]]


def point_result(stage: Stage, batches: Sequence[LaneBatch], point: RunPoint, begin: int) -> PointResult:
    """The lanes of a point, of which number ``begin`` is the first. They may span several batches, in any order."""
    parts, logs, numbers, seconds, compile_seconds = [], [], [], 0.0, 0.0
    end = begin + point.lanes
    batches = [batch for batch in batches if ((batch.lanes >= begin) & (batch.lanes < end)).any()]
    errors = {int(batch.lanes[0]) - begin: batch.error for batch in batches if batch.error is not None}
    if len(errors) == point.lanes:
        raise ConfigError(f"stage {stage.name!r}: {errors[0]}")
    for batch in batches:
        inside = np.flatnonzero((batch.lanes >= begin) & (batch.lanes < end))
        share = batch.share(len(inside))
        seconds, compile_seconds = seconds + share * batch.seconds, compile_seconds + share * batch.compile_seconds
        parts.append(jax.tree.map(lambda leaf, inside=inside: leaf[inside], batch.artifact))
        logs.append([{k: v if k == "iteration" else v[inside] for k, v in row.items()} for row in batch.rows])
        numbers.append(batch.lanes[inside])
    order = np.argsort(np.concatenate(numbers))  # a batch on two devices has lanes of both halves, e.g. 0 and 4
    artifact = jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *parts)
    log, env_steps = until_done(joined_rows(logs, order)), batches[0].env_steps
    iterations = log[-1]["iteration"]
    rows = [
        log_row(
            stage.name,
            row["iteration"],
            row["iteration"] * env_steps,
            seconds * row["iteration"] / iterations,
            {name: value for name, value in row.items() if name != "iteration"},
        )
        for row in log
    ]
    before = from_facts(point.finished, point.config)
    failed = failed_seeds(stage, point.config, artifact, rows, before)
    failed |= {index: f"stage {stage.name!r}: {message}" for index, message in errors.items() if index not in before}
    spent = {"seconds": seconds, "compile_seconds": compile_seconds}
    steps = {"iterations": iterations, "env_steps": iterations * env_steps}
    facts = {"identity": identity(stage, point.config), **spent, **steps, **to_facts(failed, point.config)}
    return PointResult(blanked(artifact, {**before, **failed}), facts, rows)


def joined_rows(logs: Sequence[list[dict[str, Any]]], order: Int[np.ndarray, " n"]) -> list[dict[str, Any]]:
    """The logs of several batches as one, with the lanes in this order.

    A batch that ended early repeats its last row; one that failed has NaN.
    """
    rows = []
    longest = max(logs, key=len)
    nothing = {name: np.array([np.nan]) for name in longest[0]}
    for i, row in enumerate(longest):
        parts = [log[min(i, len(log) - 1)] if log else nothing for log in logs]
        values = {name: np.concatenate([part[name] for part in parts])[order] for name in row if name != "iteration"}
        rows.append({"iteration": row["iteration"], **values})
    return rows


def until_done(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows up to the one in which all seeds were done, where the run would have ended without the other points.

    A row has the mean of ``done`` over its iterations: it is above 0 from the row in which the seed was done.
    """
    done = (i for i, row in enumerate(rows) if "done" in row and np.all(row["done"] > 0))
    return rows[: next(done, len(rows) - 1) + 1]


def record(stage: Stage, each: RunPoint, artifact: PyTree, facts: dict[str, Any], rows: list[dict]) -> None:
    """Write a finished stage to the folder of a point. Temporary artifacts are large and stay in memory."""
    each.finished[stage.name] = facts
    log = [row for row in each.folder.read_log() if row.get("stage") != stage.name]
    each.folder.write_log([*log, *rows])
    if not stage.temporary:
        save_artifact(each.folder, stage, each.config, artifact)
    each.folder.write_json(store.PROGRESS, each.finished)


def load_point(each: RunPoint, context: Context) -> Run:
    """The run of a point, with the env of its group, for which everything is compiled already."""
    return run_of(each.config, context, load_artifacts(each.folder, each.config, context), each.folder)


def is_evaluated(each: RunPoint) -> bool:
    """Whether metrics.json belongs to the finished stages, and has the metrics as this version defines them."""
    if "evaluate" not in read_progress(each.folder) or not each.folder.has(store.METRICS):
        return False
    return definitions_note(each.folder.read_json(store.METRICS)) is None


def evaluate_point(
    each: RunPoint,
    context: Context,
    measure: Measure | None = None,
    prepare: Callable[[Run], Run] | None = None,
) -> dict[str, Any]:
    """The metrics of a finished point: read if they are there, and computed otherwise. Figures are left out.

    The numbers of ``measure`` are in a file of its own. ``prepare`` changes the run before it is evaluated.
    """
    further = None if measure is None else f"{measure.__name__}.json"
    if not is_evaluated(each) or (further is not None and not each.folder.has(further)):
        began = time.perf_counter()
        run = load_point(each, context)
        run = run if prepare is None else prepare(run)
        found = evaluation.evaluate_run(run)
        if measure is not None and further is not None:
            each.folder.write_json(further, measure(run, found))
        spent = {"seconds": time.perf_counter() - began, "compile_seconds": 0.0}
        facts = {**read_progress(each.folder), "evaluate": spent}
        metrics = store.plain(evaluation.metrics_of(run, found, env_steps_of(facts), seconds_of(facts)))
        each.folder.write_json(store.METRICS, metrics)
        each.folder.write_json(store.PROGRESS, facts)
    metrics = each.folder.read_json(store.METRICS)
    return metrics if further is None else metrics | {"measured": each.folder.read_json(further)}

"""Runs the stages of a run and measures its policy while it learns, for curves over steps and over time.

Any program can be finished at any time: `run_stage` calls ``finish`` on the state between two chunks. So every method
has intermediate policies, its program stays as it is, and measuring compiles nothing that the final evaluation does not
use as well. The seconds of a stage do not contain compiling, measuring and saving.

A stage that was stopped continues from its checkpoint, which has the curve and the log so far.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from edl.artifacts import SkillPolicy, States
from edl.runs import store, tensors
from edl.runs.driver import Outline, Position, Tick, advance, finish, lane_mesh, outline
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import Stage, identity, inputs_of, plan, stage_keys, work_of
from edl.runs.points import RunPoint, record
from edl.runs.resolve import Context
from edl.runs.session import (
    CHECKPOINT_COST,
    CHECKPOINT_SECONDS,
    load_artifact,
    log_row,
    position_of,
    read_checkpoint,
    read_progress,
)

NUM_SNAPSHOTS = 12
"""Measurements per stage."""

OnSnapshot = Callable[[Stage, PyTree], Any]
"""Measures the artifact that a stage would hand over now. The result becomes part of the curve; None leaves it out."""


class StageResult(NamedTuple):
    """A finished stage: its artifact, what it took, the rows of its log, and the curve of its snapshots.

    ``facts`` are those of a run folder: identity, seconds, compile_seconds, iterations and env_steps.
    """

    artifact: PyTree
    facts: dict[str, Any]
    rows: list[dict[str, Any]]
    curve: list[dict[str, Any]]


def curve_file(stage: Stage) -> str:
    """The file of a stage's curve in the folder of a run."""
    return f"curve_{stage.name}.json"


def policy_in(artifact: PyTree) -> SkillPolicy | None:
    """The policy in the artifact of a stage, if it has one."""
    if isinstance(artifact, States):
        return artifact.policy
    return artifact if isinstance(artifact, SkillPolicy) else None


def run_measured(
    point: RunPoint,
    context: Context,
    interrupt: Interrupt,
    on_snapshot: OnSnapshot,
    *,
    until: str | None = None,
    known: dict[str, StageResult] | None = None,
    runs: Path | None = None,
) -> dict[str, StageResult]:
    """All stages of a run up to ``until``. Finished ones are loaded, others run and are measured meanwhile.

    ``known`` are results by identity, which several runs of a process share. New ones are added to it. ``runs`` is a
    folder of runs, in which finished stages with the same identity are looked for, too.
    """
    known, results = {} if known is None else known, {}
    for stage in plan(point.config, until):
        artifacts = {name: each.artifact for name, each in results.items()}
        key = identity(stage, point.config)
        if key not in known and stage.name in point.finished and point.folder.has(stage.file):
            known[key] = load_stage(stage, point, context, artifacts)
        elif key not in known and (other := finished_in(runs, stage, key, point)) is not None:
            known[key] = load_stage(stage, other, context, artifacts)
        elif key not in known:
            known[key] = run_stage(stage, point, context, artifacts, interrupt, on_snapshot)
        found = results[stage.name] = known[key]
        if stage.name not in point.finished:
            record(stage, point, jax.device_get(found.artifact), found.facts, found.rows)
            point.folder.write_json(curve_file(stage), {"curve": found.curve})
            point.folder.remove(store.CHECKPOINT, store.PREVIOUS_CHECKPOINT)
        interrupt.check()
    return results


def finished_in(runs: Path | None, stage: Stage, key: str, point: RunPoint) -> RunPoint | None:
    """Another run of a folder of runs that has finished this very stage, as ``point`` with its folder; None if none."""
    for path in [] if runs is None else sorted(runs.iterdir()):
        folder = store.Folder(path)
        finished = read_progress(folder)
        if finished.get(stage.name, {}).get("identity") == key and folder.has(stage.file):
            return point._replace(folder=folder, finished=finished)
    return None


def load_stage(stage: Stage, point: RunPoint, context: Context, artifacts: dict[str, PyTree]) -> StageResult:
    """A finished stage from the folder of its run."""
    artifact = load_artifact(point.folder, stage, point.config, context, artifacts)
    rows = [row for row in point.folder.read_log() if row.get("stage") == stage.name]
    file = curve_file(stage)
    curve = point.folder.read_json(file)["curve"] if point.folder.has(file) else []
    return StageResult(artifact, point.finished[stage.name], rows, curve)


def run_stage(
    stage: Stage,
    point: RunPoint,
    context: Context,
    artifacts: dict[str, PyTree],
    interrupt: Interrupt,
    on_snapshot: OnSnapshot,
) -> StageResult:
    """Run one stage for all seeds, with about `NUM_SNAPSHOTS` snapshots at even distances."""
    config, lanes = point.config, point.config.num_seeds
    stage.check_inputs(config, inputs_of(stage, artifacts))
    work = work_of(stage, config, context, artifacts)
    facts, mesh = outline(work, lanes), lane_mesh(lanes, work.inputs)
    recorder = Recorder(stage, point, facts)
    position = recorder.load()
    every = max(facts.iterations // NUM_SNAPSHOTS, 1)
    due = every if position is None else (position.iteration // every + 1) * every
    keys, compile_seconds = stage_keys(config, stage.name), 0.0
    recorder.resume_clock()
    for tick in advance(work, keys, position, mesh=mesh, run_interruptible=interrupt.run_interruptible):
        if not compile_seconds:
            compile_seconds = tick.compile_seconds
            recorder.leave_out(compile_seconds)
        position = tick.position
        recorder.add_row(tick)
        if not tick.done:
            recorder.save_if_due(tick, interrupt.requested)
            interrupt.check()
        if position.iteration >= due and facts.iterations > 1 and not tick.done:
            due = (position.iteration // every + 1) * every
            recorder.measure(position, lambda now=position: on_snapshot(stage, finish(work, now, lanes, mesh=mesh)))
    assert position is not None  # every program has at least one iteration
    seconds = recorder.seconds
    artifact = finish(work, position, lanes, mesh=mesh)
    if stage.finite:
        tensors.check_finite(artifact, f"the result of stage {stage.name!r} at point {point.name}")
    stage.check_artifact(config, artifact)
    recorder.measure(position, lambda: on_snapshot(stage, artifact))
    spent = {"seconds": seconds, "compile_seconds": compile_seconds, "iterations": position.iteration}
    found = {"identity": identity(stage, config), **spent, "env_steps": position.iteration * facts.env_steps}
    return StageResult(artifact, found, recorder.rows, recorder.curve)


class Recorder:
    """The seconds, the log and the curve of a stage, and its checkpoint.

    The clock runs while the stage computes. It stands still during measurements, saving and compiling.
    """

    def __init__(self, stage: Stage, point: RunPoint, facts: Outline):
        self.stage, self.point, self.facts = stage, point, facts
        self.rows: list[dict[str, Any]] = []
        self.curve: list[dict[str, Any]] = []
        self.earlier, self.began = 0.0, time.perf_counter()
        self.saved, self.cost = time.perf_counter(), 0.0

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.began

    def resume_clock(self) -> None:
        self.began = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """Do not count these seconds, which have passed."""
        self.began += seconds

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock."""
        began = time.perf_counter()
        yield
        self.leave_out(time.perf_counter() - began)

    def add_row(self, tick: Tick) -> None:
        if tick.row is not None:
            iteration = tick.position.iteration
            steps = iteration * self.facts.env_steps
            self.rows.append(store.plain(log_row(self.stage.name, iteration, steps, self.seconds, tick.row)))

    def measure(self, position: Position, measure: Callable[[], Any]) -> None:
        """Add a measurement to the curve, and write the curve: it is readable now, and after a kill."""
        steps, seconds = position.iteration * self.facts.env_steps, round(self.seconds, 2)
        with self.paused():
            value = measure()
            if value is not None:
                self.curve.append({"env_steps": steps, "seconds": seconds, "value": value})
                self.point.folder.write_json(curve_file(self.stage), {"curve": self.curve})

    def load(self) -> Position | None:
        """The position of the last checkpoint of this stage, whose log and curve are continued."""
        folder = self.point.folder
        data, whose = read_checkpoint(folder), str(folder.place(store.CHECKPOINT))
        if data is None or (notes := tensors.notes_of(data, whose)).get("identity") != self._identity:
            return None
        state = tensors.decode(data, self.facts.state, whose, finite=False)
        position, spent = position_of(notes, state, self.facts, self.point.lanes, whose)
        self.rows, self.curve, self.earlier = notes["rows"], notes["curve"], spent["seconds"]
        return position

    def save_if_due(self, tick: Tick, stopping: bool) -> None:
        """Write a checkpoint if the last one is old, or if the run is about to stop."""
        due = time.perf_counter() - self.saved > max(CHECKPOINT_SECONDS, CHECKPOINT_COST * self.cost)
        if not due and not stopping:
            return
        with self.paused():
            began, position = time.perf_counter(), tick.position.trimmed(self.point.lanes)
            notes = {
                "stage": self.stage.name,
                "identity": self._identity,
                "iteration": position.iteration,
                "sums": {name: value.tolist() for name, value in position.sums.items()},
                "spent": {"seconds": self.seconds},
                "rows": self.rows,
                "curve": self.curve,
            }
            self.point.folder.save_checkpoint(position.state, notes)
            self.saved = time.perf_counter()
            self.cost = self.saved - began

    @property
    def _identity(self) -> str:
        return identity(self.stage, self.point.config)

"""Runs the stages of a run and measures its policy while it learns, for curves over steps and over time.

Any program can be finished at any time: `snapshots` calls ``finish`` on the state between two chunks. So every method
has intermediate policies, its program stays as it is, and measuring compiles nothing that the final evaluation does not
use as well. The seconds of a stage do not contain compiling and measuring.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from edl.artifacts import SkillPolicy, States
from edl.runs import tensors
from edl.runs.driver import advance, finish, lane_mesh, outline
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import Stage, identity, inputs_of, plan, stage_keys, work_of
from edl.runs.points import RunPoint, record
from edl.runs.resolve import Context
from edl.runs.session import load_artifact, log_row

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
) -> dict[str, StageResult]:
    """All stages of a run up to ``until``. Finished ones are loaded, others run and are measured meanwhile.

    ``known`` are results by identity, which several runs of a process share. New ones are added to it.
    """
    known, results = {} if known is None else known, {}
    for stage in plan(point.config, until):
        artifacts = {name: each.artifact for name, each in results.items()}
        key = identity(stage, point.config)
        if key not in known and stage.name in point.finished and point.folder.has(stage.file):
            known[key] = load_stage(stage, point, context, artifacts)
        elif key not in known:
            known[key] = run_stage(stage, point, context, artifacts, interrupt, on_snapshot)
        found = results[stage.name] = known[key]
        if stage.name not in point.finished:
            record(stage, point, jax.device_get(found.artifact), found.facts, found.rows)
            point.folder.write_json(curve_file(stage), {"curve": found.curve})
    return results


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
    every = max(facts.iterations // NUM_SNAPSHOTS, 1)
    curve, rows, position, measuring, compile_seconds, due = [], [], None, 0.0, 0.0, every
    began = time.perf_counter()
    for tick in advance(work, stage_keys(config, stage.name), mesh=mesh, run_interruptible=interrupt.run_interruptible):
        interrupt.check()
        position, compile_seconds = tick.position, tick.compile_seconds
        seconds, steps = time.perf_counter() - began - measuring - compile_seconds, position.iteration * facts.env_steps
        if tick.row is not None:
            rows.append(log_row(stage.name, position.iteration, steps, seconds, tick.row))
        if position.iteration >= due and facts.iterations > 1 and not tick.done:
            due = position.iteration + every
            paused = time.perf_counter()
            value = on_snapshot(stage, finish(work, position, lanes, mesh=mesh))
            if value is not None:
                curve.append({"env_steps": steps, "seconds": round(seconds, 2), "value": value})
                point.folder.write_json(curve_file(stage), {"curve": curve})  # readable now, and after a kill
            measuring += time.perf_counter() - paused
    assert position is not None  # every program has at least one iteration
    seconds = time.perf_counter() - began - measuring - compile_seconds
    artifact = finish(work, position, lanes, mesh=mesh)
    if stage.finite:
        tensors.check_finite(artifact, f"the result of stage {stage.name!r} at point {point.name}")
    stage.check_artifact(config, artifact)
    value, steps = on_snapshot(stage, artifact), position.iteration * facts.env_steps
    if value is not None:
        curve.append({"env_steps": steps, "seconds": round(seconds, 2), "value": value})
    spent = {"seconds": seconds, "compile_seconds": compile_seconds, "iterations": position.iteration}
    found = {"identity": identity(stage, config), **spent, "env_steps": steps}
    return StageResult(artifact, found, rows, curve)

"""Runs the stages of one run in this process: log, checkpoint, stop on Ctrl-C, and resume."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from edl.artifacts import Experience, States
from edl.config import ConfigError
from edl.runs import store, tensors
from edl.runs.config import RunConfig
from edl.runs.driver import Outline, Position, Tick, advance, finish, lane_mesh, outline
from edl.runs.interrupt import Interrupt, Interrupted
from edl.runs.live import coverage_so_far
from edl.runs.pipeline import Stage, identity, inputs_of, plan, stage_keys, work_of
from edl.runs.progress import Progress, SilentProgress, StageProgress
from edl.runs.resolve import Context
from edl.runs.store import Folder

CHECKPOINT_SECONDS = 20.0
CHECKPOINT_COST = 20.0
"""Checkpoints are at least `CHECKPOINT_SECONDS` apart, and at least this many times as long as the last one took."""
LOG_SECONDS = 2.0

StageFacts = dict[str, Any]
"""Facts about a finished stage: identity, seconds, compile_seconds, iterations and env_steps."""


class Session:
    """Runs or loads the stages of one run. Without a folder, only the artifacts in memory are kept."""

    def __init__(
        self, config: RunConfig, context: Context, folder: Folder | None, interrupt: Interrupt, progress: Progress
    ):
        self.config, self.context, self.folder = config, context, folder
        self.interrupt, self.progress = interrupt, progress
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = [] if folder is None else folder.read_log()
        self.finished = valid_stages(config, folder)
        self.earlier_seconds = sum(each["seconds"] + each["compile_seconds"] for each in self.finished.values())
        self.logged = self.saved = time.perf_counter()
        self.checkpoint_seconds = 0.0
        silent = isinstance(progress, SilentProgress)
        self.live_metrics = (lambda state: {}) if silent else coverage_so_far(context.layout, config.num_seeds)

    def run_stages(self, until: str) -> dict[str, Any]:
        """The artifacts of all stages up to ``until``, by stage name. Finished stages are loaded, others run.

        A stage whose artifact is no longer needed contributes shapes only: its file may be deleted already.
        """
        stages = plan(self.config, until)
        needed = needed_stages(stages, self.finished)
        artifacts: dict[str, Any] = {}
        for stage in stages:
            if stage.name in needed:
                artifacts[stage.name] = self.run_stage(stage, artifacts)
            else:
                work = work_of(stage, self.config, self.context, artifacts)
                artifacts[stage.name] = outline(work, self.config.num_seeds).artifact
        return artifacts

    def run_stage(self, stage: Stage, artifacts: Mapping[str, Any]) -> PyTree:
        """The artifact of a stage: loaded if it is finished, resumed if a checkpoint exists, and computed otherwise."""
        if stage.name in self.finished and self.folder is not None:
            return load_artifact(self.folder, stage, self.config, self.context, artifacts)
        stage.check_inputs(self.config, inputs_of(stage, artifacts))
        work, lanes = work_of(stage, self.config, self.context, artifacts), self.config.num_seeds
        facts, mesh = outline(work, lanes), lane_mesh(lanes, work.inputs)
        self.progress.stage_started(stage.name, facts.iterations)
        start, spent_before = self._read_checkpoint(stage, facts)
        began, position, compile_seconds = time.perf_counter(), start, 0.0
        keys, run_interruptible = stage_keys(self.config, stage.name), self.interrupt.run_interruptible
        for tick in advance(work, keys, start, mesh=mesh, run_interruptible=run_interruptible):
            position, compile_seconds = tick.position, tick.compile_seconds
            spent = time.perf_counter() - began - compile_seconds
            self._after_chunk(stage, facts, tick, _add_seconds(spent_before, spent, compile_seconds))
        assert position is not None  # every program has at least one iteration
        artifact = finish(work, position, lanes, mesh=mesh)
        if stage.finite:
            tensors.check_finite(artifact, f"the result of stage {stage.name!r}")
        stage.check_artifact(self.config, artifact)
        spent = _add_seconds(spent_before, time.perf_counter() - began - compile_seconds, compile_seconds)
        steps = {"iterations": position.iteration, "env_steps": position.iteration * facts.env_steps}
        self._record(stage, artifact, {"identity": identity(stage, self.config), **spent, **steps})
        self.progress.stage_finished(stage.name)
        self.interrupt.check()
        return artifact

    def run_timed(self, name: str, function: Callable[[], Any]) -> Any:
        """Run something that is not a program, such as evaluation, and record how long it took."""
        self.progress.stage_started(name, 0)
        began = time.perf_counter()
        result = self.interrupt.run_interruptible(function)
        self.finished[name] = _add_seconds({}, time.perf_counter() - began, 0.0)
        self.progress.stage_finished(name)
        return result

    def complete(self) -> None:
        """Record that the run is complete, and delete the files that only resuming needed."""
        if self.folder is not None:
            self.folder.write_json(store.PROGRESS, self.finished)
            for stage in plan(self.config):
                if stage.temporary:
                    self.folder.remove(stage.file)

    @property
    def env_steps(self) -> dict[str, int]:
        return env_steps_of(self.finished)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds per stage, over all sessions of this run. The total includes the time between stages."""
        return seconds_of(self.finished) | {"total": self.earlier_seconds + time.perf_counter() - self.began}

    def _read_checkpoint(self, stage: Stage, facts: Outline) -> tuple[Position | None, dict[str, float]]:
        """The position of a stage when it was last saved, and the seconds it had taken."""
        position, spent = None, {}
        if self.folder is not None and self.folder.has(store.CHECKPOINT):
            whose = str(self.folder.place(store.CHECKPOINT))
            data = self.folder.read(store.CHECKPOINT)
            notes = tensors.notes_of(data, whose)
            expected = identity(stage, self.config)
            if notes.get("stage") == stage.name and notes.get("identity", expected) == expected:
                state = tensors.decode(data, facts.state, whose, finite=False)
                sums = {key: np.asarray(value) for key, value in notes["sums"].items()}
                position, spent = Position(notes["iteration"], state, sums), notes["spent"]
                self.earlier_seconds += sum(spent.values())
        last = 0 if position is None else position.iteration
        self.rows = [row for row in self.rows if row.get("stage") != stage.name or row.get("iteration", 0) <= last]
        return position, spent

    def _after_chunk(self, stage: Stage, facts: Outline, tick: Tick, spent: dict[str, float]) -> None:
        """Log, show progress, and write a checkpoint if it is time."""
        iteration = tick.position.iteration
        if tick.row is not None:
            row = log_row(stage.name, iteration, iteration * facts.env_steps, spent["seconds"], tick.row)
            self.rows.append(row)
        means = {key: float(np.mean(value)) for key, value in tick.metrics.items()}
        means |= self.live_metrics(tick.position.state)
        env_steps = facts.env_steps * self.config.num_seeds
        self.progress.stage_advanced(
            stage.name, StageProgress(iteration, facts.iterations, tick.rate, env_steps, means)
        )
        now = time.perf_counter()
        if tick.done:  # the artifact comes next, and a checkpoint would not say that the stage ended early
            return
        if self.interrupt.requested:
            self._write_checkpoint(stage, tick.position, spent)
            raise Interrupted
        if now - self.saved > max(CHECKPOINT_SECONDS, CHECKPOINT_COST * self.checkpoint_seconds):
            self._write_checkpoint(stage, tick.position, spent)
        elif now - self.logged > LOG_SECONDS:
            self._write_log()

    def _write_checkpoint(self, stage: Stage, position: Position, spent: dict[str, float]) -> None:
        """Write the log, then the checkpoint: resuming drops rows that come after the checkpoint."""
        if self.folder is None:
            return
        began = time.perf_counter()
        self._write_log()
        position = position.trimmed(self.config.num_seeds)
        notes = {
            "stage": stage.name,
            "identity": identity(stage, self.config),
            "iteration": position.iteration,
            "sums": {key: value.tolist() for key, value in position.sums.items()},
            "spent": spent,
        }
        self.folder.save(store.CHECKPOINT, position.state, notes)
        self.saved = time.perf_counter()
        self.checkpoint_seconds = self.saved - began

    def _write_log(self) -> None:
        if self.folder is not None:
            self.folder.write_log(self.rows)
        self.logged = time.perf_counter()

    def _record(self, stage: Stage, artifact: PyTree, facts: StageFacts) -> None:
        self.finished[stage.name] = facts
        if self.folder is None:
            return
        self._write_log()
        self.folder.save(stage.file, artifact)
        self.folder.write_json(store.PROGRESS, self.finished)
        self.folder.remove(store.CHECKPOINT)


def needed_stages(stages: list[Stage], finished: Mapping[str, Any]) -> set[str]:
    """The stages whose artifacts are part of the result, or are used by a stage that has yet to run."""
    needed: set[str] = set()
    for stage in reversed(stages):
        if stage.field is not None or stage.name in needed:
            needed.add(stage.name)
            if stage.name not in finished:
                needed |= set(stage.takes)
    return needed & {stage.name for stage in stages}


def valid_stages(config: RunConfig, folder: Folder | None) -> dict[str, StageFacts]:
    """The finished stages of a folder whose files exist and whose identity is that of this config.

    Folders written before stages had identities are trusted: their config is compared as a whole.
    """
    recorded = read_progress(folder)
    valid: dict[str, StageFacts] = {}
    for stage in plan(config):
        facts, expected = recorded.get(stage.name), identity(stage, config)
        same = facts is not None and facts.get("identity", expected) == expected
        if facts is not None and same and folder is not None and folder.has(stage.file):
            valid[stage.name] = facts
    return valid


def load_artifact(
    folder: Folder, stage: Stage, config: RunConfig, context: Context, artifacts: Mapping[str, Any]
) -> PyTree:
    """The artifact of a finished stage, from its file. ``artifacts`` of other stages may be shapes."""
    if stage.name == "explore":
        return load_states(folder, stage, config, context)
    skeleton = outline(work_of(stage, config, context, artifacts), config.num_seeds).artifact
    return folder.load(stage.file, skeleton, finite=stage.finite, optional=stage.optional)


def load_states(folder: Folder, stage: Stage, config: RunConfig, context: Context) -> States:
    """The states of a run. Their shapes come from the file itself, because a dataset may be gone."""
    whose = str(folder.place(stage.file))
    arrays = tensors.arrays_of(folder.read(stage.file), whose)
    tensors.check_finite(arrays, whose)
    samples, parts = arrays.get("samples"), ("paths", "actions", "lengths")
    expected = (config.num_seeds, context.env.feature_size)
    fits = samples is not None and samples.ndim == 3 and samples.shape[::2] == expected
    of_policy = {name: array for name, array in arrays.items() if name.startswith("policy.")}
    if not fits or arrays.keys() - {"samples", *(f"experience.{part}" for part in parts), *of_policy}:
        raise ConfigError(f"{whose} does not belong to this run's config. Restore both, or run again.")
    found = [arrays[f"experience.{part}"] for part in parts if f"experience.{part}" in arrays]
    experience = Experience(*map(jnp.asarray, found)) if len(found) == len(parts) else None
    policy = None
    if of_policy:
        skeleton = outline(work_of(stage, config, context, {}), config.num_seeds).artifact
        policy = tensors.rebuild(of_policy, {"policy": skeleton.policy}, whose)["policy"]
    return States(jnp.asarray(samples), experience, policy)


def read_progress(folder: Folder | None) -> dict[str, StageFacts]:
    """The stages that a run has finished, with what is known about each."""
    if folder is None or not folder.has(store.PROGRESS):
        return {}
    found = folder.read_json(store.PROGRESS)
    try:
        if not all({"seconds", "compile_seconds"} <= facts.keys() for facts in found.values()):
            raise ValueError("a stage without its times")
        return {
            name: {k: v if k == "identity" else float(v) for k, v in facts.items()} for name, facts in found.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{folder.place(store.PROGRESS)} is damaged: it must list the finished stages. Restore it, or run again."
        ) from error


def env_steps_of(finished: Mapping[str, StageFacts]) -> dict[str, int]:
    """Environment steps of the stages that took any: ``steps`` in metrics.json."""
    return {name: int(each["env_steps"]) for name, each in finished.items() if each.get("env_steps")}


def seconds_of(finished: Mapping[str, StageFacts]) -> dict[str, float]:
    """Seconds of compilation, of each stage, and of all together: ``seconds`` in metrics.json."""
    spent = {name: each["seconds"] for name, each in finished.items()}
    compiling = sum((each["compile_seconds"] for each in finished.values()), 0.0)
    return {"compile": compiling, **spent, "total": compiling + sum(spent.values())}


def log_row(
    stage: str, iteration: int, env_steps: int, seconds: float, metrics: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """A row of log.jsonl: each metric has one value per seed."""
    values = {key: [float(f"{each:.6g}") for each in value] for key, value in metrics.items()}
    return {"stage": stage, "iteration": iteration, "env_steps": env_steps, "seconds": round(seconds, 3), **values}


def _add_seconds(before: Mapping[str, float], seconds: float, compile_seconds: float) -> dict[str, float]:
    return {
        "seconds": before.get("seconds", 0.0) + seconds,
        "compile_seconds": before.get("compile_seconds", 0.0) + compile_seconds,
    }

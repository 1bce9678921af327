"""Runs the stages of one run in this process: log, checkpoint, stop on Ctrl-C, and resume."""

import contextlib
import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError, RunWarning
from edl.runs import store, tensors
from edl.runs.binding import check_bound, save_artifact
from edl.runs.config import RunConfig
from edl.runs.driver import (
    Outline,
    Position,
    Tick,
    Work,
    advance,
    finish,
    first_lanes,
    lane_mesh,
    lanes_at_a_time,
    outline,
)
from edl.runs.errors import RetryableError
from edl.runs.failures import FAILED, Failed, blanked, failed_seeds, from_facts, repaired, to_facts
from edl.runs.interrupt import Interrupt
from edl.runs.lanes import fitting_width, select_lanes
from edl.runs.live import coverage_so_far
from edl.runs.parts import Part, joined, load_part, parts_of, save_part, saved_width
from edl.runs.pipeline import Stage, identity, inputs_of, plan, stage_keys, work_of
from edl.runs.progress import Progress, SilentProgress, StageProgress, Watcher
from edl.runs.resolve import Context
from edl.runs.store import Folder
from edl.types import Keys

CHECKPOINT_SECONDS = 20.0
CHECKPOINT_COST = 20.0
"""Checkpoints are at least `CHECKPOINT_SECONDS` apart, and at least this many times as long as the last one took."""
LOG_SECONDS = 2.0

StageFacts = dict[str, Any]
"""Facts about a finished stage: identity, seconds, compile_seconds, iterations and env_steps."""


MIN_SEEDS_FOR_PARTS = 16
"""Fewer seeds run at once without a look at the memory that they need."""


class PartResult(NamedTuple):
    """The result of a stage for some of the seeds: artifact, rows of the log, iterations, and seconds."""

    artifact: PyTree
    rows: list[dict[str, Any]]
    iterations: int
    spent: dict[str, float]


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
        self.failed_writes: set[str] = set()
        self.log_behind = False
        silent = isinstance(progress, SilentProgress)
        self.live_metrics = (lambda state: {}) if silent else coverage_so_far(context.layout, config.num_seeds)

    def run_stages(self, until: str) -> dict[str, Any]:
        """The artifacts of all stages up to ``until``, by stage name. Finished stages are loaded, others run.

        A stage whose artifact is no longer needed contributes shapes only: its file may be deleted already.
        """
        stages = plan(self.config, until)
        needed = needed_stages(stages, self.finished)
        artifacts: dict[str, Any] = {}
        inputs: dict[str, Any] = {}
        for stage in stages:
            if stage.name in needed:
                artifacts[stage.name] = self.run_stage(stage, inputs)
                inputs[stage.name] = repaired(artifacts[stage.name], self.failed, self.config.num_seeds)
            else:
                work = work_of(stage, self.config, self.context, inputs)
                inputs[stage.name] = artifacts[stage.name] = outline(work, self.config.num_seeds).artifact
        return artifacts

    def run_stage(self, stage: Stage, artifacts: Mapping[str, Any]) -> PyTree:
        """The artifact of a stage: loaded if it is finished, resumed if a checkpoint exists, and computed otherwise."""
        if stage.name in self.finished and self.folder is not None:
            return load_artifact(self.folder, stage, self.config, self.context, artifacts)
        stage.check_inputs(self.config, inputs_of(stage, artifacts))
        work, keys = work_of(stage, self.config, self.context, artifacts), stage_keys(self.config, stage.name)
        began = time.perf_counter()
        parts = parts_of(self.config.num_seeds, self._part_width(stage, work, keys))
        compile_seconds = time.perf_counter() - began
        facts = outline(work, self.config.num_seeds)
        self.progress.stage_started(stage.name, facts.iterations * len(parts))
        results = [self._run_part(stage, work, keys, part) for part in parts]
        artifact = joined([each.artifact for each in results])
        self.rows += join_rows([each.rows for each in results], [part.count(len(keys)) for part in parts])
        failed = failed_seeds(stage, self.config, artifact, self.rows, self.failed)
        artifact = blanked(artifact, {**self.failed, **failed})
        spent = {"seconds": 0.0, "compile_seconds": compile_seconds}
        for each in results:
            spent = _add_seconds(spent, each.spent["seconds"], each.spent["compile_seconds"])
        iterations = max(each.iterations for each in results)
        steps = {"iterations": iterations, "env_steps": iterations * facts.env_steps}
        about = {"identity": identity(stage, self.config), **spent, **steps, **to_facts(failed, self.config)}
        self._record(stage, artifact, about, parts)
        self.progress.stage_finished(stage.name)
        self.interrupt.check()
        return artifact

    def _part_width(self, stage: Stage, work: Work, keys: Keys) -> int:
        """The number of seeds that run at a time: those of an interrupted run, or as many as suit the devices."""
        total = len(keys)
        width = saved_width(self.folder, identity(stage, self.config), total)
        if width is not None:
            return width
        width = lanes_at_a_time(total, work.inputs)
        if width < MIN_SEEDS_FOR_PARTS:
            return width
        mesh = lane_mesh(width, work.inputs)
        return min(width, self.interrupt.run_interruptible(lambda: fitting_width(work, keys, width, mesh)))

    def _run_part(self, stage: Stage, work: Work, keys: Keys, part: Part) -> "PartResult":
        """Run a stage for some of the seeds, or load their result if it is finished."""
        total, name = len(keys), identity(stage, self.config)
        alone = part.width == total
        work = work if alone else select_lanes(work, part.lanes(total))
        if not alone and self.folder is not None:
            found = load_part(self.folder, part, work, total, name)
            if found is not None:
                artifact, notes = found
                self.earlier_seconds += sum(notes["spent"].values())
                return PartResult(artifact, notes["rows"], notes["iterations"], notes["spent"])
        facts, mesh = outline(work, part.width), lane_mesh(part.width, work.inputs)
        start, spent_before = self._read_checkpoint(stage, facts, part)
        began, position, compile_seconds = time.perf_counter(), start, 0.0
        chosen, run_interruptible = keys[jnp.asarray(part.lanes(total))], self.interrupt.run_interruptible
        for tick in advance(work, chosen, start, mesh=mesh, run_interruptible=run_interruptible):
            position, compile_seconds = tick.position, tick.compile_seconds
            spent = time.perf_counter() - began - compile_seconds
            if isinstance(self.progress, Watcher):
                so_far = functools.partial(finish, work, position, part.width, mesh=mesh)
                self.progress.stage_state(stage.name, position.state, so_far)
            self._after_chunk(stage, facts, tick, _add_seconds(spent_before, spent, compile_seconds), part)
        assert position is not None  # every program has at least one iteration
        artifact = first_lanes(finish(work, position, part.width, mesh=mesh), part.count(total))
        spent = _add_seconds(spent_before, time.perf_counter() - began - compile_seconds, compile_seconds)
        rows = [row for row in self.rows if row.get("stage") == stage.name]
        self.rows = [row for row in self.rows if row.get("stage") != stage.name]
        if not alone and self.folder is not None:
            notes = {"identity": name, "rows": store.plain(rows), "iterations": position.iteration, "spent": spent}
            save_part(self.folder, part, artifact, notes)
            self.folder.remove(store.CHECKPOINT, store.PREVIOUS_CHECKPOINT)
        return PartResult(artifact, rows, position.iteration, spent)

    def run_timed(self, name: str, function: Callable[[], Any]) -> Any:
        """Run something that is not a program, such as evaluation, and record how long it took."""
        self.progress.stage_started(name, 0)
        began = time.perf_counter()
        result = self.interrupt.run_interruptible(function)
        self.finished[name] = _add_seconds({}, time.perf_counter() - began, 0.0)
        self.progress.stage_finished(name)
        return result

    def finish_log(self) -> None:
        """Write the log if that failed the last time."""
        if self.log_behind:
            self._write_log()

    def complete(self) -> None:
        """Record that the run is complete, and delete the files that only resuming needed."""
        if self.folder is not None:
            self.folder.write_json(store.PROGRESS, self.finished)
            for stage in plan(self.config):
                if stage.temporary:
                    self.folder.remove(stage.file)

    @property
    def failed(self) -> Failed:
        """Why seeds have failed, by their index."""
        return from_facts(self.finished, self.config)

    @property
    def env_steps(self) -> dict[str, int]:
        return env_steps_of(self.finished)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds per stage, over all sessions of this run. The total includes the time between stages."""
        return seconds_of(self.finished) | {"total": self.earlier_seconds + time.perf_counter() - self.began}

    def _read_checkpoint(self, stage: Stage, facts: Outline, part: Part) -> tuple[Position | None, dict[str, float]]:
        """The position of a stage when it was last saved, and the seconds it had taken."""
        position, spent = None, {}
        data = None if self.folder is None else read_checkpoint(self.folder)
        if data is not None:
            assert self.folder is not None
            whose = str(self.folder.place(store.CHECKPOINT))
            notes, expected = tensors.notes_of(data, whose), identity(stage, self.config)
            same_part = (notes.get("part", 0), notes.get("width", part.width)) == part
            if notes.get("stage") == stage.name and notes.get("identity", expected) == expected and same_part:
                state = tensors.decode(data, facts.state, whose, finite=False)
                position, spent = position_of(notes, state, facts, part.width, whose)
                self.earlier_seconds += sum(spent.values())
        last = 0 if position is None else position.iteration
        self.rows = [row for row in self.rows if row.get("stage") != stage.name or row.get("iteration", 0) <= last]
        return position, spent

    def _after_chunk(self, stage: Stage, facts: Outline, tick: Tick, spent: dict[str, float], part: Part) -> None:
        """Log, show progress, and write a checkpoint if it is time."""
        iteration = tick.position.iteration
        if tick.row is not None:
            row = log_row(stage.name, iteration, iteration * facts.env_steps, spent["seconds"], tick.row)
            self.rows.append(row)
        if self.interrupt.requested and not tick.done:  # first of all: the terminal may be gone
            self._write_checkpoint(stage, tick.position, spent, part)
            self.interrupt.check()
        total = self.config.num_seeds
        means = {key: float(np.mean(value[: part.count(total)])) for key, value in tick.metrics.items()}
        means |= self.live_metrics(tick.position.state)
        begin, end = (number * facts.iterations for number in (part.number, len(parts_of(total, part.width))))
        steps = facts.env_steps * part.width
        update = StageProgress(begin + iteration, end, tick.rate, steps, means, begin, part.seeds(self.config))
        self.progress.stage_advanced(stage.name, update)
        now = time.perf_counter()
        if tick.done:  # the artifact comes next, and a checkpoint would not say that the stage ended early
            return
        if now - self.saved > max(CHECKPOINT_SECONDS, CHECKPOINT_COST * self.checkpoint_seconds):
            with self._warn_of_failure("a checkpoint"):
                self._write_checkpoint(stage, tick.position, spent, part)
        elif now - self.logged > LOG_SECONDS:
            self._write_log()

    def _write_checkpoint(self, stage: Stage, position: Position, spent: dict[str, float], part: Part) -> None:
        """Write the log, then the checkpoint: resuming drops rows that come after the checkpoint."""
        if self.folder is None:
            return
        began = time.perf_counter()
        self._write_log()
        position = position.trimmed(part.width)
        notes = {
            "stage": stage.name,
            "identity": identity(stage, self.config),
            "iteration": position.iteration,
            "sums": {key: value.tolist() for key, value in position.sums.items()},
            "spent": spent,
            "part": part.number,
            "width": part.width,
        }
        self.folder.save_checkpoint(position.state, notes)
        self.saved = time.perf_counter()
        self.checkpoint_seconds = self.saved - began

    def _write_log(self) -> None:
        """Write the log. If that fails, the run goes on: the rows are kept, and written the next time."""
        if self.folder is not None:
            self.log_behind = True
            with self._warn_of_failure("the log"):
                self.folder.write_log(self.rows)
                self.log_behind = False
        self.logged = time.perf_counter()

    @contextlib.contextmanager
    def _warn_of_failure(self, what: str) -> Iterator[None]:
        """Turn a failed write into a warning, the first time."""
        try:
            yield
        except OSError as error:
            if what not in self.failed_writes:
                self.failed_writes.add(what)
                warnings.warn(f"{what} could not be written ({error}). The run goes on.", RunWarning, stacklevel=2)

    def _record(self, stage: Stage, artifact: PyTree, facts: StageFacts, parts: Sequence[Part]) -> None:
        self.finished[stage.name] = facts
        if self.folder is None:
            return
        self._write_log()
        save_artifact(self.folder, stage, self.config, artifact)
        self.folder.write_json(store.PROGRESS, self.finished)
        self.folder.remove(store.CHECKPOINT, store.PREVIOUS_CHECKPOINT, *(part.file for part in parts))


def read_checkpoint(folder: Folder) -> bytes | None:
    """The last checkpoint, or the one before it if the last one is damaged; None if there is none."""
    damaged: ConfigError | None = None
    for name in (store.CHECKPOINT, store.PREVIOUS_CHECKPOINT):
        if not folder.has(name):
            continue
        try:
            data = folder.read(name)
            tensors.arrays_of(data, str(folder.place(name)))
        except ConfigError as error:
            damaged = damaged or error
            continue
        if damaged is not None:
            warnings.warn(
                f"{folder.place(store.CHECKPOINT)} is damaged. The run continues from the checkpoint before it.",
                RunWarning,
                stacklevel=2,
            )
        return data
    if damaged is not None:
        raise damaged
    return None


def position_of(
    notes: Mapping[str, Any], state: PyTree, facts: Outline, lanes: int, whose: str
) -> tuple[Position, dict[str, float]]:
    """The position in the notes of a checkpoint, and the seconds that the stage had taken; both are checked."""
    try:
        iteration, spent = notes["iteration"], {str(name): float(each) for name, each in notes["spent"].items()}
        sums = {str(name): np.asarray(each, float) for name, each in notes["sums"].items()}
        if not isinstance(iteration, int) or not 0 <= iteration <= facts.iterations:
            raise ValueError("iteration")
        if any(each.shape != (lanes,) for each in sums.values()):
            raise ValueError("sums")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RetryableError(f"{whose} is damaged: its notes are invalid. {store.remedy(store.CHECKPOINT)}") from error
    return Position(iteration, state, sums), spent


def needed_stages(stages: list[Stage], finished: Mapping[str, Any]) -> set[str]:
    """The stages whose artifacts are kept, or are used by a stage that has yet to run."""
    needed: set[str] = set()
    for stage in reversed(stages):
        if not stage.temporary or stage.name in needed:
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

    def skeleton() -> PyTree:
        return outline(work_of(stage, config, context, artifacts), config.num_seeds).artifact

    data, whose = folder.read(stage.file), str(folder.place(stage.file))
    check_bound(folder, stage, config, data)
    if stage.load is not None:
        artifact = stage.load(folder, stage.file, config.num_seeds, context.env.feature_size, skeleton)
    else:
        artifact = tensors.decode(data, skeleton(), whose, finite=False, optional=stage.optional)
    if stage.finite:
        tensors.check_finite(artifact, whose, from_facts(read_progress(folder), config))
    return artifact


def read_progress(folder: Folder | None) -> dict[str, StageFacts]:
    """The stages that a run has finished, with what is known about each."""
    if folder is None or not folder.has(store.PROGRESS):
        return {}
    found = folder.read_json(store.PROGRESS)
    try:
        if not all({"seconds", "compile_seconds"} <= facts.keys() for facts in found.values()):
            raise ValueError("a stage without its times")
        return {name: {k: _fact(k, v) for k, v in facts.items()} for name, facts in found.items()}
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise RetryableError(
            f"{folder.place(store.PROGRESS)} is damaged: it must list the finished stages. "
            f"{store.remedy(store.PROGRESS)}"
        ) from error


def _fact(name: str, value: Any) -> Any:
    """A fact about a finished stage, checked."""
    if name == "identity":
        return str(value)
    if name == FAILED:
        return {str(int(seed)): str(reason) for seed, reason in value.items()}
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name}: {value}")
    return number


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


def join_rows(logs: Sequence[list[dict[str, Any]]], counts: Sequence[int]) -> list[dict[str, Any]]:
    """The logs of several parts, of so many seeds each, as one. A part that ended early repeats its last row."""
    if len(logs) == 1:
        return logs[0]
    rows = []
    for index, longest in enumerate(max(logs, key=len)):
        parts = [log[min(index, len(log) - 1)] for log in logs]
        values = {
            name: [each for part, count in zip(parts, counts, strict=True) for each in part[name][:count]]
            for name, value in longest.items()
            if isinstance(value, list)
        }
        rows.append({**longest, "seconds": round(sum(part["seconds"] for part in parts), 3), **values})
    return rows


def _add_seconds(before: Mapping[str, float], seconds: float, compile_seconds: float) -> dict[str, float]:
    return {
        "seconds": before.get("seconds", 0.0) + seconds,
        "compile_seconds": before.get("compile_seconds", 0.0) + compile_seconds,
    }

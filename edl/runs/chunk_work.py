"""Run a chunk of a sweep, in this process or in a worker, and leave everything that matters in files.

    SWEEP/points/NNN                        the run folders of the points
    SWEEP/chunks/NAME/done.json             the marker: the chunk has finished, and these points of it have failed
    SWEEP/chunks/NAME/failed.json           points that have failed so far
    SWEEP/chunks/NAME/checkpoint/           the position of the stage that is running
    SWEEP/chunks/NAME/status.json           how far it is, for the table of the driver
    SWEEP/chunks/NAME/resumed.json          from where it was continued after an interruption

Every file is written by renaming. A chunk that was interrupted at any moment can be run again, by any process that sees
the folder: it continues from its checkpoint.
"""

import contextlib
import functools
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from edl.config import ConfigError
from edl.interop.env_names import allow_import
from edl.runs import store, tensors
from edl.runs.chunks import Chunk
from edl.runs.config import RunConfig
from edl.runs.driver import Outline, Tick
from edl.runs.errors import RetryableError
from edl.runs.interrupt import Interrupt, catch_interrupts
from edl.runs.lanes import SavedBatch, Spent
from edl.runs.points import (
    FixedLanes,
    LaneContext,
    RunPoint,
    env_key,
    evaluate_point,
    group_contexts,
    is_evaluated,
    open_point,
    run_group,
)
from edl.runs.progress import Progress, StageProgress
from edl.runs.resolve import Context
from edl.runs.session import CHECKPOINT_COST, position_of, read_checkpoint, valid_stages
from edl.runs.store import POINTS, Folder

CHUNKS = "chunks"
DONE = "done.json"
FAILED = "failed.json"
STATUS = "status.json"
RESUMED = "resumed.json"
STATUS_SECONDS = 1.0
LOCK_SECONDS = 120.0
"""How long a chunk waits for a worker that still runs it, e.g. because its node was given up too early."""


class ChunkTask(NamedTuple):
    """A chunk of a sweep to run. ``envs`` are names of envs whose modules the user has allowed to be imported."""

    sweep: str
    chunk: Chunk
    title: str
    checkpoint_seconds: float
    envs: tuple[str, ...] = ()

    @property
    def folder(self) -> Folder:
        return chunk_folder(self.sweep, self.chunk.name)


def chunk_folder(sweep: str | Path, name: str) -> Folder:
    return Folder(Path(sweep) / CHUNKS / name)


def run_chunk(
    task: ChunkTask, *, progress: Progress | None = None, interrupt: Interrupt | None = None, device: Any = None
) -> dict[str, Any]:
    """Run the stages of a chunk, and evaluate its points if it is their last. Returns facts for the driver.

    Without an ``interrupt`` this process is a worker: it catches its own signals.
    """
    for name in task.envs:
        allow_import(name)
    folder, began = store.make_folder(task.folder.path), time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.locked_when_free(folder.path, LOCK_SECONDS))
        stack.enter_context(jax.default_device(device))
        interrupt = interrupt or stack.enter_context(catch_interrupts())
        record = ChunkRecord(task, interrupt)
        points = work_on(task, record, progress or StatusFile(folder))
        write_marker(folder, task.chunk, failures_of(points))
        folder.remove(store.CHECKPOINT, store.PREVIOUS_CHECKPOINT, STATUS)
    facts = {"iterations": record.iterations, "resumed_at": record.resumed_at}
    return {**facts, "seconds": time.perf_counter() - began}


def work_on(task: ChunkTask, record: "ChunkRecord", progress: Progress) -> list[RunPoint]:
    """Run the stages of all points, and evaluate those whose last stage this is."""
    chunk = task.chunk
    points, contexts = open_points(task), contexts_of(chunk.envs)
    fixed = FixedLanes(chunk.widths, lambda key: StageCheckpoints(record, key))
    context = LaneContext([], record.interrupt, progress, fixed=fixed)
    run_group(points, contexts, context, task.title, until=chunk.until)
    record.write_failures(points)
    if chunk.last:
        evaluate_points(points, contexts, context, task.title)
        record.write_failures(points)
    return points


def write_marker(folder: Folder, chunk: Chunk, failed: Mapping[str, str]) -> None:
    """Mark a chunk as finished."""
    names = [point.name for point in chunk.points]
    folder.write_json(DONE, {"chunk": chunk.name, "points": names, "failed": failed})


def read_failed(folder: Folder, name: str = DONE) -> dict[str, str]:
    """Why points of a chunk have failed, by their names, from its marker or from `FAILED`."""
    found = folder.read_json(name)
    failed = found.get("failed") if name == DONE and isinstance(found, dict) else found
    if not isinstance(failed, dict) or not all(isinstance(reason, str) for reason in failed.values()):
        raise RetryableError(
            f"{folder.place(name)} is damaged: it must name the points that have failed. Delete it: "
            "`edl sweep --resume` then runs this chunk again."
        )
    return failed


def failures_of(points: Sequence[RunPoint]) -> dict[str, str]:
    return {point.name: point.failures[0] for point in points if point.failures}


def open_points(task: ChunkTask) -> list[RunPoint]:
    """The points of a chunk, with the failures that earlier chunks and attempts have recorded.

    If the folder of a point cannot be opened, the chunk does not run: without that point, the lanes of the others would
    have other places, and the last bits of their results could differ.
    """
    failed: dict[str, str] = {}
    for name in task.chunk.needs:
        failed |= read_failed(chunk_folder(task.sweep, name))
    if task.folder.has(FAILED):
        failed |= read_failed(task.folder, FAILED)
    points = []
    for each in task.chunk.points:
        path = Path(task.sweep) / POINTS / each.name
        store.remove_remnants(path)
        try:
            points.append(open_point(each.name, each.config, path))
        except ConfigError as error:
            raise RetryableError(f"point {each.name}: {error}") from error
        points[-1].failures.extend([failed[each.name]] if each.name in failed else [])
    return points


@functools.lru_cache(maxsize=4)
def contexts_of(envs: tuple[RunConfig, ...]) -> Mapping[Any, Context]:
    return group_contexts(envs)


def evaluate_points(
    points: Sequence[RunPoint], contexts: Mapping[Any, Context], context: LaneContext, title: str
) -> None:
    """Compute the metrics of all points that have not failed."""
    context.progress.stage_started(f"evaluate{title}", 0)
    for point in points:
        where = contexts[env_key(point.config)]
        try:
            if not point.failures:
                context.interrupt.run_interruptible(lambda p=point, w=where: evaluate_point(p, w))
        except RetryableError:
            raise
        except ConfigError as error:
            point.failures.append(f"{point.name}: {error}")
    context.progress.stage_finished(f"evaluate{title}")


def is_done(sweep: str | Path, chunk: Chunk) -> bool:
    """Whether a chunk has its marker, and its points still have what it made."""
    folder = chunk_folder(sweep, chunk.name)
    if not folder.has(DONE):
        return False
    failed = read_failed(folder)
    for each in chunk.points:
        point = Folder(Path(sweep) / POINTS / each.name)
        if each.name in failed:
            continue
        if not point.has(store.CONFIG) or chunk.until not in valid_stages(each.config, point):
            return False
        if chunk.last and not is_evaluated(RunPoint(each.name, each.config, point, {}, [])):
            return False
    return True


class ChunkRecord:
    """What this process records of its chunk: the points that failed, and how many iterations it has computed."""

    def __init__(self, task: ChunkTask, interrupt: Interrupt):
        self.task, self.interrupt, self.folder = task, interrupt, task.folder
        self.iterations = 0
        self.resumed_at: dict[str, int] = {}

    def write_failures(self, points: Sequence[RunPoint]) -> None:
        """Record the points that have failed, so that they are left out if this chunk is run again."""
        failed = failures_of(points)
        if failed:
            self.folder.write_json(FAILED, failed)


class StageCheckpoints:
    """Checkpoints of one stage: `edl.runs.lanes.LaneCheckpoints`. ``key`` identifies the stage and its lanes."""

    def __init__(self, record: ChunkRecord, key: str):
        self.record, self.key = record, key
        self.saved, self.cost, self.last = time.perf_counter(), 0.0, 0
        self.began, self.earlier = self.saved, Spent()

    def load(self, lanes: Int[np.ndarray, " w"], facts: Outline) -> SavedBatch | None:
        """The last position of the same lanes of the same stage."""
        folder = self.record.folder
        data, whose = read_checkpoint(folder), str(folder.place(store.CHECKPOINT))
        self.saved, self.last, self.earlier = time.perf_counter(), 0, Spent()
        if data is None or (notes := tensors.notes_of(data, whose)).get("key") != self._digest(lanes):
            return None
        state = tensors.decode(data, facts.state, whose, finite=False)
        position, spent = position_of(notes, state, facts, len(lanes), whose)
        self.earlier = Spent(spent.get("seconds", 0.0), spent.get("compile_seconds", 0.0))
        rows = [{k: v if k == "iteration" else np.asarray(v, float) for k, v in row.items()} for row in notes["rows"]]
        self.last = position.iteration
        stage = self.key.partition(":")[0]
        self.record.resumed_at[stage] = position.iteration
        before = folder.read_json(RESUMED) if folder.has(RESUMED) else []
        folder.write_json(RESUMED, [*before, {"stage": stage, "iteration": position.iteration}])
        return SavedBatch(position, rows, self.earlier)

    def after_tick(self, lanes: Int[np.ndarray, " w"], tick: Tick, rows: list[dict[str, Any]]) -> None:
        """Save the position if it is time, or if the work is about to stop."""
        iteration = tick.position.iteration
        self.record.iterations += iteration - self.last
        self.last = iteration
        due = time.perf_counter() - self.saved > max(self.record.task.checkpoint_seconds, CHECKPOINT_COST * self.cost)
        if tick.done:
            self.began = time.perf_counter()  # the next batch of this stage begins
        if tick.done or not (due or self.record.interrupt.requested):
            return
        began = time.perf_counter()
        spent = self.earlier.plus(began - self.began - tick.compile_seconds, tick.compile_seconds)
        notes = {
            "key": self._digest(lanes),
            "stage": self.key.partition(":")[0],
            "iteration": iteration,
            "sums": {name: value.tolist() for name, value in tick.position.sums.items()},
            "rows": [{k: v if k == "iteration" else v.tolist() for k, v in row.items()} for row in rows],
            "spent": spent._asdict(),
        }
        self.record.folder.save_checkpoint(tick.position.state, notes)
        self.saved = time.perf_counter()
        self.cost = self.saved - began if self.record.task.checkpoint_seconds else 0.0

    def _digest(self, lanes: Int[np.ndarray, " w"]) -> str:
        return hashlib.sha256(f"{self.key} {lanes.tolist()}".encode()).hexdigest()


class StatusFile:
    """Writes the progress of a task to status.json, for the table of the driver: `edl.runs.progress.Progress`."""

    def __init__(self, folder: Folder):
        self.folder, self.written = folder, 0.0

    def stage_started(self, stage: str, iterations: int) -> None: ...

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        """Write the file if the last one is old enough."""
        if time.monotonic() - self.written >= STATUS_SECONDS:
            rate = progress.rate * progress.env_steps
            share = progress.iteration / progress.iterations
            self.folder.write_json(STATUS, {"stage": stage, "steps_per_second": rate, "share": share})
            self.written = time.monotonic()

    def stage_finished(self, stage: str) -> None: ...


def statuses(sweep: str | Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The progress of the chunks that are running and have reported any."""
    for name in names:
        folder = chunk_folder(sweep, name)
        with contextlib.suppress(ConfigError):  # it may have finished meanwhile
            if folder.has(STATUS):
                yield folder.read_json(STATUS)

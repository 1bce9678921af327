"""Many runs: `sweep` writes a run folder per point, a table and a heat map.

`edl.runs.chunks` plans which lanes run together, an executor (`edl.runs.executors`) runs the chunks, and each chunk
leaves its results and a marker in the folder of the sweep. A stopped sweep is resumed from the markers alone.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.host import using_hosts
from edl.interop.env_names import runs_on_host
from edl.runs import evaluation, store
from edl.runs.chunk_work import ChunkTask, chunk_folder, is_done, read_failed, run_chunk, statuses, write_marker
from edl.runs.chunks import Chunk, ChunkPoint, lanes_per_chunk, plan_chunks
from edl.runs.dry_run import dry_run
from edl.runs.errors import RetryableError
from edl.runs.executors import (
    Executor,
    LocalExecutor,
    Tally,
    Task,
    ThreadExecutor,
    check_executor,
    open_executor,
    run_tasks,
)
from edl.runs.grid import SweepGrid
from edl.runs.interrupt import Interrupt, catch_interrupts
from edl.runs.optuna_search import RunWave, Tuned, import_optuna, tune
from edl.runs.points import program_key
from edl.runs.progress import Progress, SilentProgress
from edl.runs.resolve import make_context, with_dataset
from edl.runs.result import load
from edl.runs.session import CHECKPOINT_SECONDS
from edl.runs.store import POINTS, SWEEP, Folder
from edl.runs.summary import TABLES, Summary, scores_of, summarise, write_json_table, write_tables

PLAN = "plan.json"
"""The number of lanes per chunk, which must not change when a sweep is resumed."""


class Execution(NamedTuple):
    """Where a sweep runs. ``envs`` are names of envs whose modules the user has allowed to be imported."""

    executor: str = "local"
    workers: int = 0
    address: str | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    envs: tuple[str, ...] = ()


class SweepState(NamedTuple):
    """How far a sweep is, over all workers. ``seconds_left`` is None until it can be estimated."""

    lanes_done: int
    lanes: int
    steps_per_second: float
    seconds_left: float | None
    workers: int
    workers_lost: int


@runtime_checkable
class SweepWatcher(Protocol):
    """Receives the state of a sweep several times per second, and once when it was already finished."""

    def sweep_state(self, state: SweepState) -> None: ...

    def already_finished(self) -> None: ...


class SilentWatcher:
    """Ignores the state of a sweep."""

    def sweep_state(self, state: SweepState) -> None: ...

    def already_finished(self) -> None: ...


def sweep(
    grid: SweepGrid,
    out: str | Path,
    *,
    resume: bool = False,
    max_lanes: int | None = None,
    execution: Execution = Execution(),
    progress: Progress | None = None,
    watcher: SweepWatcher | None = None,
) -> Summary:
    """Run every point of a grid. ``max_lanes`` is the maximum number of lanes of a chunk.

    A point that fails, e.g. because it diverges, is marked in the summary, and the others are kept. ``progress``
    receives the stages that run in this process, ``watcher`` the state of the whole sweep.
    """
    watcher = watcher or SilentWatcher()
    check_executor(execution.executor, execution.workers, execution.address)
    if grid.search is not None and grid.search.method == "optuna":
        import_optuna()  # a missing package is reported before anything is written
    if not resume:
        check_points(grid)
    envs = [make_context(group[0].config).env for group in grid.groups]
    with catch_interrupts() as interrupt, using_hosts(envs), contextlib.ExitStack() as stack:
        finished = finished_summary(grid, out, max_lanes) if resume and (Path(out) / SWEEP).is_file() else None
        if finished is not None:
            watcher.already_finished()
            return finished
        executor = stack.enter_context(contextlib.closing(make_executor(execution, out, interrupt, progress, envs)))
        folder = stack.enter_context(open_sweep(grid, out, resume))
        lanes = chosen_lanes(folder, max_lanes, executor.backend or jax.default_backend())

        def run_wave(prefix: str, points: Sequence[ChunkPoint]) -> Results:
            chunks = plan_chunks(groups_of(points), lanes, prefix)
            SweepRun(folder, chunks, execution, executor, interrupt, watcher).run()
            return results_of(folder, points, chunks)

        grid, metrics, failures = run_points(grid, folder, run_wave)
        if failures and not metrics:
            raise ConfigError(f"all {len(grid.points)} points failed. Point {next(iter(failures.values()))}")
        summary = summarise(grid, metrics, failures)
        interrupt.run_interruptible(lambda: write_summary(folder, summary))
    return summary


def run_points(grid: SweepGrid, folder: Folder, run_wave: RunWave) -> Tuned:
    """Run all points of a grid: at once, or in the batches that Optuna chooses."""
    if grid.search is not None and grid.search.method == "optuna":
        return tune(grid, folder, run_wave)
    found, failed = run_wave("", [ChunkPoint(each.name, each.config) for each in grid.points])
    metrics = {each.number: found[each.name] for each in grid.points if each.name in found}
    return Tuned(grid, metrics, {each.number: failed[each.name] for each in grid.points if each.name in failed})


class NotFinished(Exception):
    """A chunk of the sweep has not finished."""


def finished_summary(grid: SweepGrid, out: str | Path, max_lanes: int | None) -> Summary | None:
    """The summary of a sweep if all of its chunks have finished; None if there is something to do."""
    with open_sweep(grid, out, resume=True) as folder:
        if not folder.has(PLAN) or not folder.has(TABLES["json"]):
            return None
        lanes = chosen_lanes(folder, max_lanes, None)

        def read_wave(prefix: str, points: Sequence[ChunkPoint]) -> Results:
            chunks = plan_chunks(groups_of(points), lanes, prefix)
            if not all(is_done(out, each) for each in chunks):
                raise NotFinished
            return results_of(folder, points, chunks)

        try:
            return summarise(*run_points(grid, folder, read_wave))
        except NotFinished:
            return None


def groups_of(points: Sequence[ChunkPoint]) -> list[list[ChunkPoint]]:
    """Points that share their programs."""
    groups: dict[Any, list[ChunkPoint]] = {}
    for point in points:
        groups.setdefault(program_key(point.config), []).append(point)
    return list(groups.values())


def check_points(grid: SweepGrid) -> None:
    """The dry run: reject bad points before anything is written."""
    for group in grid.groups:
        first = group[0].config
        dry_run(first, with_dataset(first, make_context(first)))


def make_executor(
    execution: Execution, out: str | Path, interrupt: Interrupt, progress: Progress | None, envs: Sequence[Env]
) -> Executor:
    """The executor of a sweep over ``envs``. Tasks in this process stop with the sweep.

    Tasks that run one at a time report their stages. So do those of an env outside of JAX: threads would share its
    host, and an env that fails would stop them all.
    """
    devices = jax.devices() if execution.executor == "local" else []
    if len(devices) > 1 and not any(map(runs_on_host, envs)):
        return ThreadExecutor(devices, interrupt=interrupt)
    if devices:
        return LocalExecutor(progress=progress or SilentProgress(), interrupt=interrupt)
    return open_executor(execution.executor, execution.workers, execution.address, str(out))


def chosen_lanes(folder: Folder, max_lanes: int | None, backend: str | None) -> int:
    """The maximum number of lanes of a chunk, which is chosen once per sweep."""
    if not folder.has(PLAN):
        lanes = max_lanes or lanes_per_chunk(backend or "cpu")
        folder.write_json(PLAN, {"lanes": lanes, "backend": backend})
        return lanes
    found = folder.read_json(PLAN)
    lanes = found.get("lanes") if isinstance(found, dict) else None
    if not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1:
        raise RetryableError(
            f"{folder.place(PLAN)} is damaged: it must have the number of lanes per chunk. Restore it from a copy, or "
            'write {"lanes": N} with the number that the sweep was started with.'
        )
    if max_lanes is not None and max_lanes != lanes:
        raise ConfigError(
            f"{str(folder.path)!r} was started with at most {lanes} lanes per chunk (got --max-lanes {max_lanes}). "
            "Resume without --max-lanes, or choose another --out."
        )
    return lanes


Results = tuple[dict[str, Any], dict[str, str]]
"""The metrics of points, and why points have failed, by their names."""


def results_of(folder: Folder, points: Sequence[ChunkPoint], chunks: Sequence[Chunk]) -> Results:
    """The results of points whose chunks have finished, from markers and metrics.json."""
    failed: dict[str, str] = {}
    for chunk in chunks:
        failed = read_failed(chunk_folder(folder.path, chunk.name)) | failed
    good = [point.name for point in points if point.name not in failed]
    return {name: Folder(folder.path / POINTS / name).read_json(store.METRICS) for name in good}, failed


class SweepRun:
    """Runs the chunks of a sweep that have not finished, and reports the state of the sweep."""

    def __init__(
        self,
        folder: Folder,
        chunks: Sequence[Chunk],
        execution: Execution,
        executor: Executor,
        interrupt: Interrupt,
        watcher: SweepWatcher,
    ):
        self.folder, self.chunks, self.execution = folder, chunks, execution
        self.executor, self.interrupt, self.watcher = executor, interrupt, watcher
        self.done = {chunk.name for chunk in chunks if is_done(folder.path, chunk)}
        self.work = {chunk.name: sum(chunk.widths.values()) for chunk in chunks}
        self.tally, self.began, self.reported = Tally(), time.perf_counter(), 0.0

    def run(self) -> None:
        """Run all chunks that have not finished. Other errors than those of points are raised at the end."""
        unexpected: BaseException | None = None
        before = sum(self.work[name] for name in self.done)
        for outcome in run_tasks(self.executor, self.tasks(), lambda: self.report(before), self.tally, saved_work):
            if isinstance(outcome.error, KeyboardInterrupt):
                raise outcome.error
            if isinstance(outcome.error, ConfigError) and not isinstance(outcome.error, RetryableError):
                self.fail(outcome.task.args[0].chunk, str(outcome.error))
            elif outcome.error is not None:
                unexpected = unexpected or outcome.error
                continue
            self.done.add(outcome.task.name)
        if unexpected is not None:
            raise unexpected
        self.report(before, always=True)

    def tasks(self) -> list[Task]:
        """A task for each chunk that has not finished. If one runs at a time, they keep their order."""
        pending = [chunk for chunk in self.chunks if chunk.name not in self.done]
        place, seconds = str(self.folder.path.absolute()), self.execution.checkpoint_seconds
        tasks = []
        for number, chunk in enumerate(pending, 1):
            title = f" {number}/{len(pending)}" if len(pending) > 1 else ""
            work = ChunkTask(place, chunk, title, seconds, self.execution.envs)
            cost = 0.0 if self.executor.workers == 1 else self.work[chunk.name]
            tasks.append(Task(chunk.name, run_chunk, (work,), chunk.needs, cost))
        return tasks

    def fail(self, chunk: Chunk, message: str) -> None:
        """Mark the points of a chunk that could not run at all."""
        folder = store.make_folder(chunk_folder(self.folder.path, chunk.name).path)
        write_marker(folder, chunk, {each.name: f"{each.name}: {message}" for each in chunk.points})

    def report(self, before: int, *, always: bool = False) -> None:
        """Tell the watcher the state of the sweep, at most once per second."""
        self.interrupt.check()
        now = time.perf_counter()
        if now - self.reported < 1.0 and not always:
            return
        self.reported = now
        running = list(statuses(self.folder.path, sorted(self.tally.running)))
        done, total = sum(self.work[name] for name in self.done), sum(self.work.values())
        left = (now - self.began) * (total - done) / (done - before) if done > before else None
        lanes = {chunk.name: chunk.lanes for chunk in self.chunks}
        self.watcher.sweep_state(
            SweepState(
                sum(lanes[name] for name in self.done),
                sum(lanes.values()),
                sum(each["steps_per_second"] for each in running),
                left,
                self.executor.workers,
                self.tally.lost,
            )
        )


def saved_work(task: Task) -> int:
    """A number that changes with every checkpoint of a chunk, and with every stage and evaluation of its points."""
    work: ChunkTask = task.args[0]
    points = [Path(work.sweep) / POINTS / each.name / store.PROGRESS for each in work.chunk.points]
    newest = 0
    for file in (work.folder.place(store.CHECKPOINT), *points):
        with contextlib.suppress(OSError):  # there is none yet, or it is replaced at this moment
            newest = max(newest, file.stat().st_mtime_ns)
    return newest


@contextlib.contextmanager
def open_sweep(grid: SweepGrid, out: str | Path, resume: bool) -> Iterator[Folder]:
    """The folder of a sweep, locked: a new one, or one that was started before with the same grid."""
    started = (Path(out) / SWEEP).is_file()
    if started and not resume:
        raise ConfigError(
            f"output folder {str(out)!r} already holds a sweep. Continue it with --resume, or choose another --out."
        )
    if not started:
        with store.new_folder(out) as folder:
            folder.write_json(SWEEP, grid.content)
            yield folder
        return
    folder = Folder(Path(out))
    with store.locked(folder):
        if folder.read_json(SWEEP) != store.plain(grid.content):
            raise ConfigError(
                f"{str(out)!r} holds a sweep of another grid. Resume with the same file, or choose another --out."
            )
        yield folder


def write_summary(folder: Folder, summary: Summary) -> None:
    """Write the tables, the heat map, and the figures and report of the best point. The table in JSON is last."""
    write_tables(folder, summary, draw_heat_map(summary))
    if summary.best is not None:
        best = load(folder.path / POINTS / summary.grid.points[summary.best].name)
        assert best.path is not None
        drawings = evaluation.draw_figures(best, evaluation.evaluate_run(best))
        evaluation.write_report(store.open_run(best.path), best.metrics or {}, drawings)
    write_json_table(folder, summary)


def draw_heat_map(summary: Summary) -> bytes:
    """The heat map of a grid, or a plot per setting of a search, as PNG."""
    from edl import figures
    from edl.figures.heatmap import heat_map
    from edl.figures.search import search_plot

    grid, best = summary.grid, None
    scores = scores_of(summary)
    labels = [axis.label for axis in grid.axes]
    envs = {point.config.env for point in grid.points}
    title = f"{grid.metric} on {envs.pop()}" if len(envs) == 1 else grid.metric
    if grid.search is not None:
        logs = [each.log for each in grid.search.space]
        return figures.to_png(search_plot(labels, [a.values for a in grid.axes], scores, title, summary.best, logs))
    if summary.best is not None:
        best = tuple(int(i) for i in np.unravel_index(summary.best, scores.shape))
    values = [[_short(v) for v in axis.values] for axis in grid.axes]
    return figures.to_png(heat_map(labels, values, scores, title, best, grid.goal == "min"))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

"""Make tables: measure the rows that are missing, several jobs at a time, and write a JSON and a Markdown file each.

A folder of tables contains ``NAME.json``, the results row by row, and ``NAME.md``. A result is written when its job has
finished. So rows can be measured in several calls, and a table can be shown while rows are missing. Rows whose result
has other settings or another version are measured again. The runs are in another folder. It is only needed to continue
jobs that were stopped.
"""

import contextlib
import json
import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

from edl.config import ConfigError, check_name
from edl.runs import store
from edl.runs.executors import LocalExecutor, Task
from edl.runs.executors.processes import ProcessExecutor
from edl.runs.interrupt import catch_interrupts
from edl.runs.pipeline import identity, plan
from edl.runs.points import (
    LaneContext,
    RunPoint,
    env_key,
    evaluate_point,
    group_contexts,
    open_point,
    program_key,
    run_group,
)
from edl.runs.progress import SilentProgress
from edl.runs.resolve import Context
from edl.runs.store import Folder
from edl.tables import TABLES
from edl.tables.explorers import explorers
from edl.tables.gymnasium_explorers import EXPLORERS as GYMNASIUM_EXPLORERS
from edl.tables.gymnasium_explorers import PLANES
from edl.tables.robots import METHODS as ROBOT_METHODS
from edl.tables.robots import ROBOTS
from edl.tables.seeds import HARD
from edl.tables.seeds import MAZES as PAPER_MAZES
from edl.tables.table import (
    COMPARED,
    EDL_DEFAULT,
    LEADS_MAZES,
    RANDOM_MAZES,
    TLDR,
    Records,
    Results,
    Row,
    TableSettings,
    check_names,
    failed_result,
    folder_name,
    is_finished,
    result_of,
)
from edl.tables.training import LEARNED
from edl.tables.tuning import NAME as TUNING

RUNS = "build/tables"
WAIT_SECONDS = 3600.0
SLOW_LEARNER = "sac"
"""Jobs with this learner start first, because they take longest."""
CPU_LANES = 10
"""Maximum number of lanes of a job on a CPU, where a core runs one lane after the other: smaller jobs keep all cores
busy, and their results are written earlier."""


@runtime_checkable
class TablesProgress(Protocol):
    """Receives messages about jobs and tables."""

    def message(self, text: str) -> None: ...


class SilentTables:
    """Ignores all messages."""

    def message(self, text: str) -> None: ...


class Job(NamedTuple):
    """Rows of one table that are measured as one program, in one process."""

    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        lanes = sum(row.config.num_seeds for row in self.rows)
        if len(self.rows) == 1:
            return f"{self.rows[0].table}: {self.rows[0].key}, {lanes} lanes"
        methods = " and ".join(dict.fromkeys(row.facts["method"] for row in self.rows))
        return f"{self.rows[0].table}: {methods}, {len(self.rows)} rows, {lanes} lanes"

    @property
    def is_slow(self) -> bool:
        return hasattr(self.rows[0].config.baseline, SLOW_LEARNER) or self.rows[0].facts["method"] == TLDR


class JobResult(NamedTuple):
    """The results of a job, by the key of their row, and the time it took."""

    results: dict[str, dict[str, Any]]
    seconds: float


def make_tables(
    names: Sequence[str],
    out: str | Path,
    settings: TableSettings = TableSettings(),
    *,
    runs: str | Path = RUNS,
    jobs: int = 1,
    progress: TablesProgress | None = None,
) -> list[str]:
    """Measure the missing rows of the named tables (``all`` for every one) and write their files in ``out``.

    ``runs`` is the folder of the runs. ``jobs`` is the number of jobs at a time, each in its own process; with 1, they
    run in this process. A job that fails does not stop the others. Returns the messages of the jobs that failed.
    """
    progress = progress or SilentTables()
    chosen = expand(names)
    check_settings(settings)
    folder = store.make_folder(out)
    with store.locked(folder):
        records = {name: dict(read_rows(folder, name)) for name in TABLES}
        failures: list[str] = []
        share_results(folder, chosen, settings, records)
        with contextlib.closing(Scheduler(Path(runs), jobs)) as scheduler:
            for job, finished in scheduler.run(
                chosen, settings, records, started=lambda job: progress.message(f"{job.title}, started")
            ):
                table = job.rows[0].table
                if isinstance(finished, Exception):
                    failures.append(f"{job.title}: {type(finished).__name__}: {finished}")
                    progress.message(f"failed: {failures[-1]}")
                    continue
                records[table] |= finished.results
                write_table(folder, table, records)
                share_results(folder, chosen, settings, records)
                progress.message(f"{job.title}, took {finished.seconds:.0f} s")
    return failures


def share_results(folder: Folder, names: Sequence[str], settings: TableSettings, records: Records) -> None:
    """Use a result for every row with the same identity: several tables have the same run in a random maze."""
    by_identity = {each["identity"]: each for name in TABLES for each in records[name].values()}
    for name in names:
        rows = [row for row in TABLES[name].rows(settings, records) if row.table == name]
        missing = [
            row for row in rows if not is_finished(row, records) and row.identity in by_identity and not row.alone
        ]
        if missing:
            shared = {row.key: {**by_identity[row.identity], **row.facts} for row in missing}
            records[name] = {**records[name], **shared}  # type: ignore[index]
            write_table(folder, name, records)


def expand(names: Sequence[str]) -> list[str]:
    """The tables that ``names`` mean, each once; ``all`` are those that are not on request. Others are rejected."""
    for name in names:
        check_name(name, ["all", *TABLES], "table", "`edl tables --help` describes each table.")
    usual = [name for name, table in TABLES.items() if not table.on_request]
    chosen = [each for name in names or ["all"] for each in (usual if name == "all" else [name])]
    return list(dict.fromkeys(chosen))


def check_settings(settings: TableSettings) -> None:
    methods = [*COMPARED, EDL_DEFAULT, *explorers(), *GYMNASIUM_EXPLORERS, *LEARNED, *ROBOT_METHODS]
    check_names(settings.methods, methods, "method or explorer")
    envs = [*PAPER_MAZES, HARD, RANDOM_MAZES, *LEADS_MAZES, *ROBOTS, *PLANES]
    check_names(settings.mazes, envs, "maze, robot or Gymnasium env")
    for name in ("num_seeds", "tuning_seeds", "maze_seeds", "many_seeds", "num_mazes"):
        if getattr(settings, name) < 1:
            raise ConfigError(f"{name} must be at least 1 (got {getattr(settings, name)}).")
    if settings.steps < 0:
        raise ConfigError(f"steps must be at least 0 (got {settings.steps}). 0 uses the steps of EDL.")


def read_rows(folder: Folder, name: str) -> dict[str, Any]:
    """The results of a table, by the key of their row; none if there is no file yet."""
    file = f"{name}.json"
    return folder.read_json(file)["rows"] if folder.has(file) else {}


def write_table(folder: Folder, name: str, records: Records) -> None:
    """Write the JSON file of a table, with one row per line, and its Markdown file."""
    rows = dict(sorted(records[name].items()))
    lines = [f"    {json.dumps(key)}: {json.dumps(store.plain(rows[key]), allow_nan=False)}" for key in rows]
    head = f'{{\n  "table": {json.dumps(name)},\n  "title": {json.dumps(TABLES[name].title)},\n  "rows": {{\n'
    folder.write(f"{name}.json", (head + ",\n".join(lines) + "\n  }\n}\n").encode())
    folder.write(f"{name}.md", markdown_of(name, rows).encode())


def markdown_of(name: str, rows: Results) -> str:
    """The whole table as a page."""
    return f"# {TABLES[name].title}\n\n{TABLES[name].views[''](rows)}\n"


def label_of(row: Row) -> tuple[str, str, str]:
    return row.table, row.key, row.identity


def jobs_of(rows: Sequence[Row], max_lanes: int | float = math.inf) -> list[Job]:
    """Rows grouped by their table and their programs. Slow jobs come first, and of these the ones that are tuned.

    A group with more lanes than ``max_lanes`` is several jobs, unless its rows have a runner.
    """
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        key = (row.table, program_key(row.config), row.until, row.measure, row.prepare, row.key if row.alone else None)
        if row.runner is not None:
            key = (row.table, row.config.env, shared_stage(row))
        groups.setdefault(key, []).append(row)
    jobs = [Job(part) for group in groups.values() for part in split_by_lanes(group, max_lanes)]
    return sorted(jobs, key=lambda job: (not job.is_slow, job.rows[0].table == TUNING))


def split_by_lanes(rows: Sequence[Row], max_lanes: int | float) -> list[tuple[Row, ...]]:
    """The rows in parts of at most ``max_lanes`` lanes, but of one row at least; in one part if they have a runner."""
    if rows[0].runner is not None:
        return [tuple(rows)]
    parts: list[tuple[Row, ...]] = []
    lanes = math.inf
    for row in rows:
        lanes += row.config.num_seeds
        if lanes > max_lanes or not parts:
            parts, lanes = [*parts, ()], row.config.num_seeds
        parts[-1] = (*parts[-1], row)
    return parts


def shared_stage(row: Row) -> str:
    """The identity of the first stage: rows with a runner that agree in it are one job, and share the stage."""
    return identity(plan(row.config)[0], row.config)


class Scheduler:
    """Runs jobs in this process or in worker processes. Results of jobs may define further rows."""

    def __init__(self, path: Path, jobs: int):
        self.path = path
        self.executor = ProcessExecutor(jobs) if jobs > 1 else LocalExecutor()
        self.max_lanes = CPU_LANES if jax.default_backend() == "cpu" else math.inf
        self.attempted: set[tuple[str, str, str]] = set()

    def close(self) -> None:
        """Stop the jobs that are running. Their runs can be resumed."""
        self.executor.close()

    def run(
        self,
        names: Sequence[str],
        settings: TableSettings,
        records: Records,
        started: Callable[[Job], None] = lambda job: None,
    ) -> Iterator[tuple[Job, JobResult | Exception]]:
        """Yield every job with its result or its error. The caller adds the results to ``records``.

        ``started`` is called with every job before it runs.
        """
        running = 0
        while True:
            for job in self.next_jobs(names, settings, records)[: self.executor.capacity - running]:
                started(job)
                self.submit(job)
                running += 1
            if not running:
                return
            for outcome in self.executor.wait(WAIT_SECONDS):
                running -= 1
                job, error = outcome.task.args[1], outcome.error
                if outcome.lost:
                    error = ConfigError(f"{outcome.task.name}: its worker was lost. Start the command again.")
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield job, error or outcome.value

    def next_jobs(self, names: Sequence[str], settings: TableSettings, records: Records) -> list[Job]:
        """The jobs that can start: rows that are defined, not finished, and were not attempted before."""
        rows = {label_of(row): row for name in names for row in TABLES[name].rows(settings, records)}
        missing = [label for label, row in rows.items() if not is_finished(row, records)]
        return jobs_of([rows[label] for label in missing if label not in self.attempted], self.max_lanes)

    def submit(self, job: Job) -> None:
        """Start a job in a worker, or keep it until `run` waits for it in this process."""
        self.attempted |= set(map(label_of, job.rows))
        self.executor.submit(Task(" ".join(label_of(job.rows[0])), execute, (self.path, job)))


def measured(row: Row, point: RunPoint, context: Context) -> dict[str, Any]:
    """The metrics of the finished run of a row, and what its figure shows."""
    return evaluate_point(point, context, row.measure or row.drawing, row.prepare)


def execute(path: Path, job: Job) -> JobResult:
    """Measure the rows of a job. Their runs are in the folder ``path`` and are resumed if they were stopped."""
    began = time.perf_counter()
    if (runner := job.rows[0].runner) is not None:
        with catch_interrupts() as interrupt:
            return JobResult(runner(path, job.rows, interrupt), time.perf_counter() - began)
    rows = {f"{row.table} {row.key}": row for row in job.rows}
    points = [open_point(name, row.config, path / folder_name(row)) for name, row in rows.items()]
    contexts = group_contexts([row.config for row in job.rows])
    results = {}
    with catch_interrupts() as interrupt:
        context = LaneContext(jax.devices(), interrupt, SilentProgress())
        run_group(points, contexts, context, until=job.rows[0].until)
        for point in points:
            row, where = rows[point.name], contexts[env_key(point.config)]
            if point.failures:
                results[row.key] = failed_result(row, point.failures[0])
                continue
            metrics = interrupt.run_interruptible(lambda p=point, w=where, row=row: measured(row, p, w))
            results[row.key] = result_of(row, metrics)
    return JobResult(results, time.perf_counter() - began)

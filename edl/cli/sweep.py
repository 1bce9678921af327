"""``edl sweep FILE``: many runs, on one machine or on a cluster."""

import dataclasses
import math
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from edl.api.display import progress_display
from edl.cli.console import new_console, print_labelled, print_line
from edl.cli.options import wants_help
from edl.cli.sweep_display import sweep_display
from edl.config import check
from edl.interop.env_names import allow_import
from edl.runs import grid as grids
from edl.runs.executors.processes import disable_preallocation
from edl.runs.interrupt import interrupted
from edl.runs.session import CHECKPOINT_SECONDS
from edl.runs.summary import TABLES, Summary, cells_of, failure_notes, rows_of, verdict
from edl.runs.sweep import SWEEP, Execution, sweep

ABOUT = "Run a grid of settings and seeds, on one machine or a cluster. Settings that are floats share one program."
OLD_FLAGS = {"--most": "--max-lanes"}
"""Flags of earlier versions, which still work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl sweep``."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """Grid as TOML or JSON, e.g. benchmarks/paper_grid.toml."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/sweep")
    """Folder for the tables, the heat map and the runs."""
    resume: bool = False
    """Continue the sweep in --out. Finished stages are not computed again."""
    max_lanes: int = 0
    """Maximum number of lanes (seeds of points) per chunk; 0 means 1 on a CPU core and 256 on a GPU. A point is
    never split."""
    executor: Literal["local", "processes", "ray"] = "local"
    """Where chunks run: in this process on all devices, in worker processes, or on a Ray cluster. All give the same
    bits."""
    workers: int = 0
    """Number of workers of processes and ray; 0 uses what suits this machine or cluster."""
    address: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Address of the Ray cluster: host:port, or ``auto`` for the cluster of this machine. Default: a new local one."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between two checkpoints of a chunk. A lost worker costs at most so much work."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """The env of the sweep. Only needed if FILE names it as module:name, because importing it runs code."""


def main(words: list[str]) -> int:
    if wants_help(words):
        print(grids.__doc__)
    options = tyro.cli(Options, args=[_current_flag(word) for word in words], prog="edl sweep", description=ABOUT)
    check(options.max_lanes >= 0, f"--max-lanes must be at least 0 (got {options.max_lanes}).")
    seconds = options.checkpoint_seconds
    check(0 <= seconds < math.inf, f"--checkpoint-seconds must be at least 0 (got {seconds}).")
    if options.executor != "local":
        disable_preallocation()  # before JAX uses a device: workers may share it with this process
    envs = () if options.env is None else (allow_import(options.env),)
    execution = Execution(options.executor, options.workers, options.address, seconds, envs)
    grid, console = grids.read(options.file), new_console()
    try:
        with sweep_display(console) as display, progress_display(console) as progress:
            summary = sweep(
                grid,
                options.out,
                resume=options.resume,
                max_lanes=options.max_lanes or None,
                execution=execution,
                progress=progress,
                watcher=display,
            )
    except KeyboardInterrupt as stop:
        raise interrupted(_after_interrupt(words, options.out), stop) from stop
    console.print()
    console.print(points_table(summary))
    console.print()
    print_line(console, verdict(summary))
    for note in failure_notes(summary):
        print_labelled(console, "warning", note)
    console.print()
    print_labelled(console, "table", str(options.out / TABLES["csv"]))
    print_labelled(console, "heat map", str(options.out / "figures" / "heat_map.png"))
    return 0


def points_table(summary: Summary) -> Table:
    """A row per point, with the best point in bold."""
    grid, rows = summary.grid, rows_of(summary)
    table = Table(pad_edge=False, box=None)
    for name in ("point", *(axis.label for axis in grid.axes), grid.metric, "95% interval"):
        table.add_column(name, justify="left" if name == "point" else "right", overflow="fold")
    for number, row in enumerate(rows):
        settings = (str(row[axis.names[0]]) for axis in grid.axes)
        table.add_row(
            row["point"], *settings, *cells_of(summary, row), style="bold" if number == summary.best else None
        )
    return table


def _current_flag(word: str) -> str:
    flag, equals, value = word.partition("=")
    return f"{OLD_FLAGS.get(flag, flag)}{equals}{value}"


def _after_interrupt(words: list[str], out: Path) -> str:
    """How to continue an interrupted sweep."""
    if not (out / SWEEP).is_file():
        return "Nothing was written."
    again = words if "--resume" in words else [*words, "--resume"]
    return f"Continue with: edl sweep {shlex.join(again)}"

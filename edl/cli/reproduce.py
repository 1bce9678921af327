"""``edl reproduce NAME...``: the figures of the paper from scratch, each with numbers and a verdict."""

import contextlib
import dataclasses
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edl.api.display import format_duration, progress_display
from edl.cli.console import new_console, print_labelled, print_line
from edl.config import check
from edl.paper import FIGURES
from edl.paper.recipes import ReproductionConfig
from edl.paper.reproduce import INDEX, expand, reproduce
from edl.runs.executors import Executor, check_executor, open_executor
from edl.runs.executors.processes import default_jobs, disable_preallocation
from edl.runs.interrupt import forward_interrupts, interrupted
from edl.runs.progress import Progress

STYLES = {"holds": "green", "undecided": "yellow", "refuted": "red"}
ABOUT = "Reproduce the figures of the paper from scratch.\n\n" + "\n\n".join(
    f"{name}: {figure.title}." for name, figure in FIGURES.items()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl reproduce``."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME")] = ("all",)
    """Names of figures, fig1 to fig5 for those of the paper's main text, or ``all``."""
    num_seeds: int = 10
    """Number of seeds per run."""
    seed: int = 0
    """First seed."""
    preset: Literal["fast", "paper"] = "fast"
    """Our settings, or the paper's recipe, whose figures go to DIR/paper. The index page shows both side by side."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "docs/results"
    """Folder for figures, numbers and the index page; its runs are in DIR/runs. Finished figures and runs are kept."""
    executor: Literal["local", "processes", "ray"] = "processes"
    """Where runs are executed: one at a time in this process, in worker processes, or on a Ray cluster."""
    jobs: int = 0
    """Number of runs at a time, each in its own process; 0 uses what suits this machine or cluster."""
    address: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Address of the Ray cluster: host:port, or ``auto`` for the cluster of this machine. Default: a new local one."""
    redraw: bool = False
    """Measure and draw finished figures again, from finished runs."""


class ReproductionDisplay:
    """Prints the progress of a reproduction: a line per figure and run, and bars for the stages of a run."""

    def __init__(self, console: Console):
        self.console, self.began = console, time.perf_counter()

    def message(self, text: str) -> None:
        """Print a line, with the time since the start."""
        print_line(self.console, f"{format_duration(time.perf_counter() - self.began):>8}  {text}")

    @contextlib.contextmanager
    def run_progress(self, title: str) -> Iterator[Progress]:
        """Show the progress of one run."""
        self.message(title)
        with progress_display(self.console) as progress:
            yield progress


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl reproduce", description=ABOUT)
    expand(options.names)
    check(options.jobs >= 0, f"--jobs must be at least 0 (got {options.jobs}). 0 uses what suits this machine.")
    console = new_console()
    settings = ReproductionConfig(options.preset, options.num_seeds, options.seed)
    executor, progress = executor_of(options), ReproductionDisplay(console)
    try:
        with forward_interrupts():
            records = reproduce(
                options.names, options.out, settings, redraw=options.redraw, executor=executor, progress=progress
            )
    except KeyboardInterrupt as stop:
        raise interrupted(f"Continue with: edl reproduce {shlex.join(words)}".rstrip(), stop) from stop
    console.print(verdicts_table(records))
    print_labelled(console, "open", str(Path(options.out) / INDEX))
    return 0


def executor_of(options: Options) -> Executor | None:
    """The executor of the runs; None if they are executed in this process."""
    check_executor(options.executor, 0, options.address)
    if options.executor == "local" or options.jobs == 1:
        return None
    disable_preallocation()  # before JAX uses a device
    if options.executor == "processes" and (options.jobs or default_jobs()) == 1:
        return None
    return open_executor(options.executor, options.jobs, options.address, options.out)


def verdicts_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Every claim with its outcome and the measured values."""
    table = Table(pad_edge=False, box=None)
    for name in ("figure", "outcome", "claim", "measured"):
        table.add_column(name, overflow="fold", style="dim" if name == "measured" else None)
    for record in records:
        for i, verdict in enumerate(record["verdicts"]):
            outcome = Text(verdict["outcome"], style=STYLES[verdict["outcome"]])
            measured = "\n".join(verdict["measured"])
            table.add_row(record["figure"] if i == 0 else "", outcome, verdict["claim"], measured)
    return table

"""``edl reproduce NAME...``: the figures of the paper from scratch, each with numbers and a verdict."""

import contextlib
import dataclasses
import shlex
import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from edl.runtime import compile_cache
from edl.cli import progress
from edl.config import ConfigError
from edl.paper import FIGURES
from edl.paper.recipes import Grid
from edl.paper.reproduce import INDEX, expand, reproduce
from edl.paper.workers import share_device, suitable
from edl.runs.session import Report

ABOUT = "The figures of the paper, from scratch.\n\n" + "\n\n".join(
    f"{name}: {figure.title}." for name, figure in FIGURES.items()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to reproduce."""

    names: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """Figures, or ``all``."""
    num_seeds: int = 10
    """How many seeds of every run."""
    seed: int = 0
    """The first seed."""
    preset: Literal["fast", "paper"] = "fast"
    """Our settings, or the paper's recipe to the letter."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "docs/results"
    """The folder for pictures, numbers and the index page; runs go to runs/ in it. What is there is not made again."""
    jobs: int = 0
    """Runs made at a time, each in a process of its own; 0 for as many as the cores allow."""
    redraw: bool = False
    """Measure and draw finished figures again, from the runs that are there."""


class Screen:
    """Tells a reproduction's progress on a console: a line per figure and run, and bars for the stages of a run."""

    def __init__(self, console: Console):
        self.console, self.began = console, time.perf_counter()

    def say(self, text: str) -> None:
        """Print a line, with the time since the beginning."""
        clock = progress.duration(time.perf_counter() - self.began)
        self.console.print(f"{clock:>8}  {text}", markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def working(self, title: str) -> Iterator[Report]:
        """Bars while a run goes on."""
        self.say(title)
        with progress.reporter(self.console) as report:
            yield report


def main(words: list[str]) -> int:
    """Run the command."""
    from edl.cli.commands import console

    options = tyro.cli(Options, args=words, prog="edl reproduce", description=ABOUT)
    expand(options.names)
    if options.jobs < 0:
        raise ConfigError(f"--jobs {options.jobs}: a number of runs is wanted, or 0 for as many as suit the machine.")
    if options.jobs != 1:
        share_device()
    compile_cache.enable()
    screen = console()
    grid = Grid(options.preset, options.num_seeds, options.seed)
    try:
        jobs = options.jobs or suitable()
        records = reproduce(options.names, options.out, grid, redraw=options.redraw, jobs=jobs, watch=Screen(screen))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"Continue with: edl reproduce {shlex.join(words)}") from stop
    screen.print(verdicts(records))
    screen.print(f"results   {options.out}/{INDEX}", markup=False, highlight=False, soft_wrap=True)
    return 0


def verdicts(records: list[dict[str, Any]]) -> Table:
    """Every claim, and whether it holds."""
    table = Table(pad_edge=False, box=None)
    for name in ("figure", "holds", "claim", "measured"):
        table.add_column(name, overflow="fold", style="dim" if name == "measured" else None)
    for record in records:
        for i, verdict in enumerate(record["verdicts"]):
            sign = "[green]yes" if verdict["holds"] else "[red]no"
            table.add_row(record["figure"] if i == 0 else "", sign, verdict["claim"], verdict["measured"])
    return table

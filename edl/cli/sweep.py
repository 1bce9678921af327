"""``edl sweep FILE``: a grid of runs as one program."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markdown import Markdown

from edl.runtime import compile_cache
from edl.cli import progress
from edl.config import ConfigError
from edl.runs import grid as grids

ABOUT = "A grid over any settings and seeds, its floats as one vmapped program on all devices."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What can be said besides the file."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/sweep")
    """The folder for the table, the heat map and the runs."""
    most: int = 0
    """Run at most so many at a time (0: as many as memory allows)."""


def sweep(words: list[str]) -> int:
    """Read the file, run the grid, and print its table."""
    if "-h" in words or "--help" in words:
        print(grids.__doc__)
    file, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else (None, words)
    parsed = tyro.cli(Options, args=rest, prog="edl sweep FILE", description=ABOUT)
    if file is None:
        raise ConfigError("FILE is missing: `edl sweep FILE ...` is wanted. benchmarks/paper_grid.toml is one.")
    compile_cache.enable()
    grid = grids.read(file)
    from edl.runs import sweep as sweeps
    from edl.runs.summary import markdown

    screen = Console()
    with progress.reporter(screen) as report:
        summary = sweeps.sweep(grid, parsed.out, report=report, most=parsed.most or None)
    screen.print(Markdown(markdown(summary)))
    screen.print(f"\ntable     {parsed.out / 'summary.csv'}\nheat map  {parsed.out / 'figures' / 'heat_map.png'}")
    return 0

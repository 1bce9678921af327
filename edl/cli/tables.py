"""``edl tables NAME...``: the tables of the documentation from scratch."""

import dataclasses
import shlex
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from edl.api.display import format_duration
from edl.cli.console import new_console, print_labelled, print_line
from edl.config import ConfigError, check
from edl.runs.executors.processes import default_jobs, disable_preallocation
from edl.runs.interrupt import forward_interrupts, interrupted
from edl.runs.store import Folder
from edl.tables import TABLES, TableSettings
from edl.tables.make import RUNS, expand, make_tables
from edl.tables.pages import DEFAULT_PAGES, fill_files, fill_pages

ABOUT = (
    "Measure the tables of the documentation from scratch, and fill them into its pages. Finished rows are kept.\n\n"
    + "\n\n".join(f"{name}: {table.title}." for name, table in TABLES.items())
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl tables``."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME")] = ("all",)
    """Names of tables, or ``all`` for all but those of robots, which need MJX and an accelerator."""
    num_seeds: int = 10
    """Number of seeds per row. Tuning, random mazes and the table of many seeds have their own numbers."""
    tuning_seeds: int = 3
    """Number of seeds per point of the tuning grid."""
    maze_seeds: int = 2
    """Number of seeds per random maze."""
    many_seeds: int = 200
    """Number of seeds in the table of many seeds."""
    num_mazes: int = 50
    """Number of random mazes."""
    steps: int = 0
    """Environment steps of every method; 0 uses the steps that EDL is configured for."""
    methods: tuple[str, ...] = ()
    """Measure only the rows of these methods or explorers."""
    mazes: tuple[str, ...] = ()
    """Measure only the rows of these mazes, robots or Gymnasium envs."""
    untuned: bool = False
    """Give all methods their default settings instead of tuning them."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("docs/results/tables")
    """Folder for a JSON and a Markdown file per table."""
    runs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path(RUNS)
    """Folder of the runs. It is only needed to continue what was stopped."""
    pages: tuple[Path, ...] = ()
    """Pages with blocks to fill. By default README.md and the pages of docs/ with tables, where they exist."""
    jobs: int = 0
    """Number of jobs at a time, each in its own process; 0 uses what suits this machine."""
    fill: bool = False
    """Measure nothing: only fill the pages and the Markdown files from the JSON files."""
    check: bool = False
    """Measure and write nothing: exit with status 1 if --fill would change a file."""


class TablesDisplay:
    """Prints a line per job, with the time since the start."""

    def __init__(self, console: Console):
        self.console, self.began = console, time.perf_counter()

    def message(self, text: str) -> None:
        print_line(self.console, f"{format_duration(time.perf_counter() - self.began):>8}  {text}")


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl tables", description=ABOUT)
    names = expand(options.names)
    check(options.jobs >= 0, f"--jobs must be at least 0 (got {options.jobs}). 0 uses what suits this machine.")
    console, failures = new_console(), []
    pages = [*options.pages] or [page for page in map(Path, DEFAULT_PAGES) if page.is_file()]
    for page in pages:
        if not page.is_file():
            raise ConfigError(f"page {str(page)!r} does not exist. Check --pages.")
    to_measure = not (options.fill or options.check)
    is_new = to_measure and not options.out.exists()
    check(is_new or options.out.is_dir(), f"--out must be the folder of the tables (got {str(options.out)!r}).")
    if to_measure:
        failures = measure(names, options, words, console)
    folder, write = Folder(options.out), not options.check
    changed = [*fill_pages(pages, folder, write=write), *fill_files(folder, write=write)]
    for page in changed:
        print_labelled(console, "differs" if options.check else "filled", str(page))
    print_labelled(console, "tables", str(options.out))
    return 1 if failures or (options.check and changed) else 0


def jobs_for(names: list[str]) -> int:
    """Jobs at a time that suit this machine. A robot's physics fill a GPU, and their seconds are compared: one job."""
    return 1 if any(TABLES[name].on_request for name in expand(names)) else default_jobs()


def measure(names: list[str], options: Options, words: list[str], console: Console) -> list[str]:
    """Measure the missing rows. Returns the messages of jobs that failed."""
    if options.jobs != 1:
        disable_preallocation()
    fields = {field: getattr(options, field) for field in TableSettings._fields if hasattr(options, field)}
    settings = TableSettings(**fields, tuned=not options.untuned)
    try:
        jobs, progress = options.jobs or jobs_for(names), TablesDisplay(console)
        with forward_interrupts():
            return make_tables(names, options.out, settings, runs=options.runs, jobs=jobs, progress=progress)
    except KeyboardInterrupt as stop:
        raise interrupted(f"Continue with: edl tables {shlex.join(words)}".rstrip(), stop) from stop

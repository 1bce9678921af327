"""``edl check RUN``: report the state of every file of a run."""

import dataclasses

import tyro
from rich.table import Table

from edl.cli.console import new_console, print_line
from edl.cli.options import EnvAgain, RunFolder
from edl.interop.env_names import allow_import
from edl.runs.checking import check_run

ABOUT = "Check every file of a run: whether it is there, whole, and as the run wrote it. Nothing is changed."
DAMAGED = 1
"""Exit status if a file is damaged or missing."""
STYLES = {"ok": "green", "damaged": "bold red", "missing": "bold red"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl check``."""

    run: RunFolder
    env: EnvAgain = None


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl check", description=ABOUT)
    if options.env is not None:
        allow_import(options.env)
    report, console = check_run(options.run), new_console()
    table = Table(pad_edge=False, box=None)
    table.add_column("file", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("note", overflow="fold")
    for each in report.files:
        table.add_row(each.name, each.state, each.note, style=STYLES.get(each.state))
    console.print(table)
    console.print()
    for remark in report.remarks:
        print_line(console, remark)
    good = "no file is damaged or missing" if report.files and not report.bad else None
    print_line(console, f"{len(report.files)} files: {good or f'{len(report.bad)} damaged or missing'}.")
    return DAMAGED if report.bad else 0

"""The console of all commands. It prints text as it is: names of envs, runs and metrics are neither markup nor emoji.

Our own formatting uses styles: ``console.print(text, style="dim")``, columns with a style, `rich.text.Text`.
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from edl.cli import printable

LABEL_WIDTH = 10
MAX_WIDTH = 1000


class PlainConsole(Console):
    """A console without markup, emoji codes and highlighting."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Escape the characters in names and settings that would control the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to `edl.cli.main`. Rich would exit with status 1."""
        raise BrokenPipeError


def new_console() -> PlainConsole:
    """A console on standard output. It is created for each command, because tests and notebooks replace the output."""
    return PlainConsole()


def print_line(console: Console, text: str) -> None:
    """Print one line that is not wrapped, so that paths and commands can be copied."""
    console.print(text, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """Print a table in full width: columns of numbers are never cut off, even if the terminal is narrower."""
    needed = Measurement.get(console, console.options.update(max_width=MAX_WIDTH), table).maximum
    wide = PlainConsole()
    wide.file, wide.width = console.file, max(console.width, needed)
    wide.print(table)


def print_labelled(console: Console, label: str, text: str) -> None:
    """Print ``text`` after a label in a column of its own."""
    print_line(console, f"{label:<{LABEL_WIDTH}}{text}")

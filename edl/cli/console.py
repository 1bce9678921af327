"""The console of all commands. It prints text as it is: names of envs, runs and metrics are neither markup nor emoji.

Our own formatting uses styles: ``console.print(text, style="dim")``, columns with a style, `rich.text.Text`.
"""

from rich.console import Console

LABEL_WIDTH = 10


class PlainConsole(Console):
    """A console without markup, emoji codes and highlighting."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to `edl.cli.main`. Rich would exit with status 1."""
        raise BrokenPipeError


def new_console() -> PlainConsole:
    """A console on standard output. It is created for each command, because tests and notebooks replace the output."""
    return PlainConsole()


def print_line(console: Console, text: str) -> None:
    """Print one line that is not wrapped, so that paths and commands can be copied."""
    console.print(text, soft_wrap=True)


def print_labelled(console: Console, label: str, text: str) -> None:
    """Print ``text`` after a label in a column of its own."""
    print_line(console, f"{label:<{LABEL_WIDTH}}{text}")

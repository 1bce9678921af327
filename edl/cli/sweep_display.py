"""The state of a sweep while it runs: a live table on a terminal, a line from time to time elsewhere."""

import time

from rich.console import Console
from rich.live import Live
from rich.table import Table

from edl.api.display import format_duration, format_magnitude
from edl.cli.console import print_line
from edl.runs.sweep import SweepState

LINE_SECONDS = 10.0
FINISHED = "This sweep is already finished: nothing was computed."


def cells(state: SweepState) -> dict[str, str]:
    """The columns of the table."""
    left = "-" if state.seconds_left is None else format_duration(state.seconds_left)
    return {
        "lanes done": f"{state.lanes_done}/{state.lanes}",
        "steps/s": format_magnitude(state.steps_per_second) if state.steps_per_second else "-",
        "time left": left,
        "workers": str(state.workers),
        "workers lost": str(state.workers_lost),
    }


class SweepTable:
    """A table that is drawn again when the state changes. One worker shows its stages instead."""

    def __init__(self, console: Console):
        self.console, self.live = console, None

    def __enter__(self) -> "SweepTable":
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def sweep_state(self, state: SweepState) -> None:
        if state.workers == 1 and self.live is None:
            return
        if self.live is None:
            self.live = Live(console=self.console, auto_refresh=False)
            self.live.start()
        table = Table(pad_edge=False, box=None)
        for name in cells(state):
            table.add_column(name, justify="right")
        table.add_row(*cells(state).values())
        self.live.update(table, refresh=True)

    def already_finished(self) -> None:
        print_line(self.console, FINISHED)


class SweepLines:
    """A line every `LINE_SECONDS`, for logs."""

    def __init__(self, console: Console):
        self.console, self.printed = console, time.monotonic()

    def __enter__(self) -> "SweepLines":
        return self

    def __exit__(self, *error: object) -> None: ...

    def sweep_state(self, state: SweepState) -> None:
        if state.workers > 1 and (time.monotonic() - self.printed > LINE_SECONDS or state.lanes_done == state.lanes):
            self.printed = time.monotonic()
            print_line(self.console, "  ".join(f"{name} {value}" for name, value in cells(state).items()))

    def already_finished(self) -> None:
        print_line(self.console, FINISHED)


def sweep_display(console: Console) -> SweepTable | SweepLines:
    return SweepTable(console) if console.is_terminal or console.is_jupyter else SweepLines(console)

"""The state of a sweep: a table on a terminal, lines in a log."""

import io

from rich.console import Console

from edl.cli.sweep_display import SweepLines, SweepTable, sweep_display
from edl.runs.sweep import SweepState

STATE = SweepState(40, 1000, 123_456.0, 95.0, 4, 3)
SHOWN = {"lanes done": "40/1000", "steps/s": "123k", "time left": "1:35", "workers": "4", "workers lost": "3"}


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def test_a_terminal_shows_a_table_with_lanes_speed_time_and_lost_workers():
    where = console(terminal=True)
    with sweep_display(where) as display:
        assert isinstance(display, SweepTable)
        display.sweep_state(STATE)
    head, row = [line for line in where.file.getvalue().splitlines() if line.strip()][:2]
    for name, value in SHOWN.items():
        assert name in head
        assert value in row


def test_a_log_gets_a_line_when_all_lanes_are_done():
    where = console(terminal=False)
    with sweep_display(where) as display:
        assert isinstance(display, SweepLines)
        display.sweep_state(STATE)  # too early for a line
        display.sweep_state(STATE._replace(lanes_done=1000, seconds_left=None, steps_per_second=0.0))
    (line,) = where.file.getvalue().splitlines()
    assert line == "lanes done 1000/1000  steps/s -  time left -  workers 4  workers lost 3"


def test_a_finished_sweep_is_named():
    for terminal in (True, False):
        where = console(terminal)
        with sweep_display(where) as display:
            display.already_finished()
        assert "already finished: nothing was computed" in where.file.getvalue()

"""A maze that is longer than an episode is noticed."""

from edl.envs.layouts import parse
from edl.evaluate.horizon import horizon_note


def corridor(cells: int) -> str:
    wall = "+" + "-+" * cells
    return f"{wall}\n|S{' ' * (2 * cells - 2)}|\n{wall}\n"


def test_a_corridor_of_twenty_cells():
    layout = parse(corridor(20), "corridor")
    assert horizon_note(layout, 50) is None
    assert horizon_note(layout, 20) is None  # 19 cells at 0.95 per step take exactly 20 steps
    assert horizon_note(layout, 10) == (
        "an episode of 10 steps reaches about 50 % of the maze. "
        "The farthest cell is about 20 steps away: use --horizon 30."
    )

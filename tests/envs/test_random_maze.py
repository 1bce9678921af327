"""Random mazes: valid, reachable, determined by their name, and with the requested loops and rooms."""

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.config import ConfigError
from edl.envs import layouts, make
from edl.envs.random_maze import (
    EXAMPLE,
    MAX_ROOM,
    MazeSpec,
    cell_distances,
    fits_horizon,
    parse_name,
    random_layout,
    random_mazes,
    random_text,
    steps_to_farthest_cell,
)

SPECS = st.builds(
    MazeSpec,
    width=st.integers(1, 9),
    height=st.integers(1, 9),
    loops=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rooms=st.integers(0, 4),
    seed=st.integers(0, 2**32),
)

PINNED = """\
+-+-+-+-+
|       |
+ + +-+ +
|  S|   |
+ + + +-+
|   |   |
+-+-+-+-+"""


def openings(layout):
    """Number of open walls between two cells."""
    return int(layout.passages.sum()) // 2


def inner_walls(spec):
    return spec.height * (spec.width - 1) + spec.width * (spec.height - 1)


@settings(max_examples=80)
@given(SPECS)
def test_a_maze_is_closed_and_all_of_it_is_reachable(spec):
    layout = random_layout(spec.name)  # the parser rejects leaks and unreachable cells
    assert len(layout.cells) == spec.width * spec.height
    assert tuple(layout.bounds[1] - layout.bounds[0]) == (spec.width, spec.height)
    rows = layout.text.split("\n")
    assert rows[0] == rows[-1] == "+" + "-+" * spec.width
    assert all(row[0] == row[-1] == "|" for row in rows[1::2])
    assert len(layout.starts) == 1
    assert cell_distances(layout).min() == 0


@settings(max_examples=30)
@given(SPECS)
def test_text_and_name_can_be_parsed_back(spec):
    text = random_text(spec)
    assert layouts.parse(text).text == text
    assert parse_name(spec.name) == spec
    assert random_text(spec) == text


@settings(max_examples=30)
@given(SPECS)
def test_without_loops_and_rooms_the_passages_are_a_spanning_tree(spec):
    layout = random_layout(spec._replace(loops=0.0, rooms=0).name)
    assert openings(layout) == len(layout.cells) - 1  # connected, as the parser has checked


@settings(max_examples=30)
@given(SPECS)
def test_loops_are_a_share_of_the_walls_that_remain(spec):
    total, before = inner_walls(spec), openings(random_layout(spec._replace(loops=0.0).name))
    after = openings(random_layout(spec.name))
    assert after - before == round(spec.loops * (total - before))
    if spec.loops == 1.0:
        assert after == total


@settings(max_examples=30)
@given(SPECS.filter(lambda spec: min(spec.width, spec.height) >= MAX_ROOM and spec.rooms > 0))
def test_a_room_has_no_inner_walls(spec):
    layout = random_layout(spec.name)
    grid = np.array([list(row) for row in layout.text.split("\n")])
    posts = [
        grid[r - 1 : r + 2, c - 1 : c + 2] for r in range(2, len(grid) - 1, 2) for c in range(2, grid.shape[1] - 1, 2)
    ]
    assert any(not {"-", "|"} & set(post.flat) for post in posts)  # a post inside a room has no wall


def test_the_seed_determines_the_maze():
    texts = {random_text(MazeSpec(8, 8, 0.1, 2, seed)) for seed in range(20)}
    assert len(texts) == 20
    random.seed(3)
    assert random_text(MazeSpec(8, 8, seed=1)) == random_text(MazeSpec(8, 8, seed=1))


def test_a_maze_that_must_not_change():
    """Tables name mazes by their seed, so the generator must not change."""
    assert random_text(MazeSpec(4, 3, loops=0.2, rooms=1, seed=7)) == PINNED


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("random:", "must have a size of WIDTHxHEIGHT cells (got '')"),
        ("random:8", "must have a size of WIDTHxHEIGHT cells (got '8')"),
        ("random:8x8x8", "must have a size of WIDTHxHEIGHT cells"),
        ("random:Random", "must have a size of WIDTHxHEIGHT cells"),
        ("random:0x8", "must have 1 to 256 cells per side (got 0x8)"),
        ("random:8x999", "must have 1 to 256 cells per side (got 8x999)"),
        ("random:8x8?loops=2", "needs loops from 0 to 1, a share of the inner walls (got 2)"),
        ("random:8x8?loops=nan", "needs loops from 0 to 1"),
        ("random:8x8?loops=many", "needs a number for loops"),
        ("random:8x8?rooms=1.5", "whole numbers for rooms and seed"),
        ("random:8x8?rooms=-1", "needs rooms and seed of at least 0"),
        ("random:8x8?seed=1&seed=2", "has the setting 'seed' twice"),
        ("random:8x8?holes=1", "takes the settings loops, rooms and seed (got 'holes=1')"),
        ("random:8x8?seed", "takes the settings loops, rooms and seed (got 'seed')"),
    ],
)
def test_bad_names_are_rejected(name, words):
    with pytest.raises(ConfigError, match=f"random maze '{re.escape(name)}' .*{re.escape(words)}") as caught:
        make(name)
    assert str(caught.value).endswith(f"For example: {EXAMPLE}.")


def test_cell_distances_go_around_walls():
    layout = layouts.parse("+-+-+-+\n|S|   |\n+ + + +\n|   | |\n+-+-+-+", "hand")
    np.testing.assert_array_equal(cell_distances(layout), [0, 3, 4, 1, 2, 5])
    assert steps_to_farthest_cell(layout) == pytest.approx(6 / 0.95)
    two_starts = layouts.parse("+-+-+-+-+\n|S     S|\n+-+-+-+-+", "two")
    np.testing.assert_array_equal(cell_distances(two_starts), [0, 1, 1, 0])


def test_which_mazes_fit_the_horizon():
    assert fits_horizon(layouts.load("bottleneck"))
    assert not fits_horizon(layouts.load("spiral"))  # 48 cells in 50 steps
    assert not fits_horizon(layouts.load("bottleneck"), horizon=30)


def test_the_sequence_of_mazes_is_fixed_and_fits():
    mazes = random_mazes(50)
    assert len({spec.name for spec in mazes}) == 50
    assert all(fits_horizon(random_layout(spec.name)) for spec in mazes)
    assert mazes[:5] == random_mazes(5)
    assert {spec.rooms for spec in mazes} == {0, 1, 2, 3}
    assert {spec.loops for spec in mazes} == {0.0, 0.1, 0.2}
    shorter = random_mazes(5, horizon=20)
    assert all(fits_horizon(random_layout(spec.name), 20) for spec in shorter)
    assert shorter != mazes[:5]

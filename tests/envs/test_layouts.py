import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.config import ConfigError
from edl.envs import layouts
from tests.envs.random_mazes import random_text, unit_walls

TWO = "+-+-+\n|S  |\n+-+-+"


def rows(*lines):
    return "\n".join(lines)


def test_a_small_maze_is_parsed():
    layout = layouts.parse(rows("+-+-+", "|  S|", "+ +-+", "|S|# ", "+-+ +"), "hand")
    np.testing.assert_array_equal(layout.cells, [[-1, 0], [0, 0], [-1, -1]])
    np.testing.assert_array_equal(layout.starts, [[0, 0], [-1, -1]])
    horizontal = [[[-1.5, 0.5], [0.5, 0.5]], [[-0.5, -0.5], [0.5, -0.5]], [[-1.5, -1.5], [-0.5, -1.5]]]
    vertical = [[[-1.5, -1.5], [-1.5, 0.5]], [[-0.5, -1.5], [-0.5, -0.5]], [[0.5, -0.5], [0.5, 0.5]]]
    np.testing.assert_array_equal(layout.walls, horizontal + vertical)
    right_up_left_down = [[True, False, False, True], [False, False, True, False], [False, True, False, False]]
    np.testing.assert_array_equal(layout.passages, right_up_left_down)
    np.testing.assert_array_equal(layout.bounds, [[-1.5, -1.5], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("name", "cells", "box"),
    [("square", 17, (5, 5)), ("tree", 31, (13, 7)), ("bottleneck", 100, (10, 10)), ("corridor_center", 11, (11, 1)),
     ("corridor_left", 11, (11, 1)), ("spiral", 49, (7, 7))],
)  # fmt: skip
def test_built_in_layouts(name, cells, box):
    layout = layouts.load(name)
    assert (layout.name, len(layout.cells)) == (name, cells)
    low, high = layout.bounds
    assert tuple(high - low) == box
    np.testing.assert_array_equal(layout.starts, [[0, 0]])


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1))
def test_merged_walls_are_the_walls_of_the_text(seed):
    rng = np.random.default_rng(seed)
    text = random_text(rng, int(rng.integers(1, 8)), int(rng.integers(1, 8)))
    layout = layouts.parse(text)
    pieces = []
    for one, other in layout.walls:
        length = int(np.abs(other - one).sum())
        corners = np.linspace(one, other, length + 1)
        pieces.extend(zip(map(tuple, corners[:-1]), map(tuple, corners[1:]), strict=True))
    assert sorted(pieces) == sorted((tuple(one), tuple(other)) for one, other in unit_walls(text))
    assert len(layout.cells) == sum(row[1::2].count(" ") + row[1::2].count("S") for row in text.split("\n")[1::2])
    # Merging is complete: no wall ends where another in the same line begins.
    ends = {(tuple(other), *np.sign(other - one)) for one, other in layout.walls}
    assert ends.isdisjoint((tuple(one), *np.sign(other - one)) for one, other in layout.walls)


@pytest.mark.parametrize(
    ("text", "row", "column", "words"),
    [
        (rows("+-+-+", "|S  |", "+-+-+-+"), 3, 6, "7 characters, the first one 5"),
        (rows("+-+-+", "|S|", "+-+-+"), 2, 4, "3 characters, the first one 5"),
        (rows("+-+-+", "|S  |", "+-+-"), 3, 5, "4 characters"),
        (rows("+-+-+", "|S x|", "+-+-+"), 2, 4, "unknown character 'x'"),
        (rows("+-+-+", "|S\t |", "+-+-+"), 2, 3, "unknown character '\\t'"),
        (rows("+-+-+", "|S -|", "+-+-+"), 2, 4, "'-' where a cell belongs"),
        (rows("+-+|+", "|S  |", "+-+-+"), 1, 4, "'|' where a horizontal wall belongs"),
        (rows("+-+-+", "-S  |", "+-+-+"), 2, 1, "'-' where a vertical wall belongs"),
        (rows("+---+", "|S  |", "+-+-+"), 1, 3, "'-' where a post belongs"),
        (rows("+-+-", "|S  ", "+-+-"), 1, 4, "2 x cells + 1 characters"),
        (rows("+-+-+", "|S  |"), 2, 1, "2 x cells + 1 rows"),
        (rows("+-+-+", "|   |", "+-+-+"), 2, 2, "put an 'S'"),
        (rows("+ +-+", "|S  |", "+-+-+"), 1, 2, "leaks to the outside"),
        (rows("+-+-+", "|S   ", "+-+-+"), 2, 5, "leaks to the outside"),
        (rows("+-+-+", "|S #|", "+-+-+"), 2, 3, "leaks to the outside"),
        (rows("+-+-+", "|S| |", "+-+-+"), 2, 4, "cannot be reached"),
        ("", 1, 1, "0 characters"),
        ("+", 1, 1, "1 characters"),
    ],
)
def test_an_error_names_row_and_column(text, row, column, words):
    with pytest.raises(ConfigError) as caught:
        layouts.parse(text, "broken")
    message = str(caught.value)
    assert message.startswith(f"maze 'broken', row {row}, column {column}: ")
    assert words in message


def test_every_opened_border_of_a_built_in_maze_is_found():
    layout = layouts.load("bottleneck")
    grid = [list(row) for row in layout.text.split("\n")]
    for row, column in [(0, 3), (5, 0), (20, 19), (11, 20)]:
        broken = [list(line) for line in grid]
        broken[row][column] = " "
        with pytest.raises(ConfigError, match=f"row {row + 1}, column {column + 1}: the maze leaks"):
            layouts.parse("\n".join("".join(line) for line in broken))


def test_stripped_trailing_spaces_windows_line_ends_and_blank_lines_are_accepted():
    tree = layouts.load("tree")
    stripped = "\r\n".join(row.rstrip() for row in tree.text.split("\n")) + "\r\n\r\n"
    assert stripped.replace("\r", "").rstrip() != tree.text
    for field in dataclasses.fields(tree):
        np.testing.assert_array_equal(getattr(layouts.parse(stripped, "tree"), field.name), getattr(tree, field.name))


def test_walls_outside_the_maze_are_accepted():
    assert len(layouts.parse(rows("+-+-+-+", "|S|#|# ", "+-+ + +")).cells) == 1


def test_a_maze_too_wide_for_float32_is_rejected():
    with pytest.raises(ConfigError, match="more than 256 cells along a side"):
        layouts.parse(rows("+" + "-+" * 257, "|S" + "  " * 256 + "|", "+" + "-+" * 257))


def test_load_reads_a_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\ufeff" + TWO, "utf-8")
    assert layouts.load(path).name == "mine"
    assert len(layouts.load(str(path)).cells) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe\x00", "is not text"), (b" " * 1_000_001, "at most 1000000 bytes"), (None, "cannot be read"),
     (b"\x00\x00\x00", "row 1, column 1")],
)  # fmt: skip
def test_load_rejects_files_that_are_not_mazes(tmp_path, content, words):
    path = tmp_path / "broken.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        layouts.load(path)


def test_load_rejects_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        layouts.load(tmp_path)


def test_a_maze_contains_the_points_of_its_cells():
    maze = layouts.parse("+-+-+\n|S  |\n+ +-+\n| |#|\n+-+-+\n", "corner")
    points = np.array([[0.0, 0.0], [-0.5, 0.5], [1.5, 0.5], [0.0, -1.4], [1.2, -1.0], [0.0, 0.6], [9.0, 9.0]])
    assert maze.contains(points).tolist() == [True, True, True, True, False, False, False]

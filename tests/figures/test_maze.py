import numpy as np
import pytest

from edl.envs.layouts import NAMES, load, parse
from edl.figures.maze import draw_maze, env_figure, env_size, outside_cells, plane, points_per_unit, wall_width
from edl.figures.style import INK, OUTSIDE, new_figure


@pytest.mark.parametrize("name", NAMES)
def test_walls_are_dark_and_cells_are_white(name, pixels):
    layout = load(name)
    figure, _ = env_figure(layout, "", "")
    picture = pixels(figure)
    starts = {tuple(start) for start in layout.starts}
    for wall in layout.walls:
        # Includes the ends: corners must be closed.
        for share in (0, 0.25, 0.5, 1):
            assert picture.at(*(wall[0] + share * (wall[1] - wall[0]))).max() < 60
    for cell in layout.cells:
        assert picture.at(*cell).min() > 250 or tuple(cell) in starts
    for cell in outside_cells(layout):
        np.testing.assert_allclose(picture.at(*cell), (0xEC, 0xEF, 0xF2))


def test_outer_walls_keep_their_full_width(pixels):
    layout = load("bottleneck")
    figure, axes = env_figure(layout, "", "")
    picture = pixels(figure)
    low, high = layout.bounds
    half = 0.35 * wall_width(axes) / points_per_unit(axes)
    for x in (low[0] - half, low[0] + half, high[0] - half, high[0] + half):
        assert picture.at(x, 0.0).max() < 100


def test_mazes_have_coordinates():
    layout = load("bottleneck")
    figure, axes = env_figure(layout, "", "")
    figure.canvas.draw()
    (left, low), (right, high) = layout.bounds
    for ticks, (first, last) in ((axes.get_xticks(), (left, right)), (axes.get_yticks(), (low, high))):
        inside = [tick for tick in ticks if first <= tick <= last]
        assert len(inside) >= 4
        assert all(tick == round(tick) for tick in inside)
    assert axes.xaxis.get_visible()
    assert not axes.spines["left"].get_visible()


def test_every_start_is_a_black_dot(pixels):
    layout = parse("+-+-+-+\n|S   S|\n+-+-+-+", "two")
    figure, _ = env_figure(layout, "", "")
    picture = pixels(figure)
    assert [picture.at(x, 0).max() < 60 for x in (0, 1, 2)] == [True, False, True]


def test_outside_cells_and_cells_tile_the_bounds():
    layout = load("tree")
    low, high = layout.bounds
    everything = np.concatenate([outside_cells(layout), layout.cells])
    assert len(np.unique(everything, axis=0)) == len(everything) == round(np.prod(high - low))


def test_a_maze_can_be_drawn_into_existing_axes(pixels):
    figure = new_figure(3.0, 3.0)
    axes = figure.add_subplot()
    draw_maze(axes, load("square"), starts=False)
    picture = pixels(figure)
    assert picture.at(0, 0).min() > 250
    assert picture.count(INK) > 100
    assert picture.count(OUTSIDE) > 1000


def test_figures_have_the_shape_of_the_env():
    width, height = env_size(load("corridor_left"))
    assert width / height == pytest.approx(11)
    # The figure of a narrow maze is wider than the maze, so that the title fits.
    tower = parse("+-+\n|S|\n" + "+ +\n| |\n" * 9 + "+-+", "tower")
    figure, _ = env_figure(tower, "a tower", "")
    assert env_size(tower)[0] < 1 < figure.get_figwidth()


def test_a_long_title_is_cut_before_the_note_and_is_not_a_formula():
    figure, _ = env_figure(load("square"), "$\\frac" + "x" * 200, "the note")
    title, note = (text.get_text() for text in figure.texts)
    assert title.startswith("$\\frac")
    assert title.endswith("…")
    assert len(title) < 60
    assert note == "the note"
    figure.canvas.draw()
    left, right = (text.get_window_extent() for text in figure.texts)
    assert left.x1 < right.x0


def test_only_two_features_are_drawn():
    np.testing.assert_array_equal(plane(np.arange(6.0).reshape(2, 3)), [[0, 1], [3, 4]])
    np.testing.assert_array_equal(plane(np.array([[1.0], [2.0]])), [[1, 0], [2, 0]])

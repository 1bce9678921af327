"""Panels of mazes, intervals, gridworlds, and the index page."""

import numpy as np
import pytest

from edl.envs.layouts import load
from edl.figures.gridworld import gridworld_figure
from edl.figures.intervals import intervals_figure
from edl.figures.palette import palette
from edl.figures.panels import ONE_COLOUR, STAR, Panel, blend, panels_figure
from edl.figures.results import results_html
from edl.figures.style import INK, to_svg


def test_panels_do_not_overlap_and_have_their_colours(run, pixels):
    left = Panel(run.layout, "left", "a note", run.paths, run.goals)
    right = Panel(run.layout, "right", paths=run.paths, colours=[ONE_COLOUR] * len(run.paths))
    figure = panels_figure([[left, right], [None, left]])
    assert len(figure.axes) == 3
    boxes = [axes.get_position() for axes in figure.axes]
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[0].y0 == pytest.approx(boxes[1].y0)
    assert boxes[2].y1 < boxes[1].y0
    assert all(0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1 for box in boxes)
    shown = pixels(figure)
    assert shown.count(INK, 30) > 500  # walls and text
    assert all(shown.count(colour, 30) > 0 for colour in palette(10))
    alone = pixels(panels_figure([[right]]))
    assert all(alone.count(colour) < 20 for colour in palette(10))


def test_a_landscape_has_a_star_at_its_maximum(pixels):
    layout = load("corridor_left")
    field = np.tile(np.linspace(0, 1, 220)[:, None], (1, 20))
    figure = panels_figure([[Panel(layout, field=field, best=np.array([7.0, 0.0]))]], names=["one"], side=8.0)
    shown = pixels(figure)
    assert shown.count(STAR, 12) > 30
    np.testing.assert_allclose(shown.at(7.0, 0.0), [255, 210, 31], atol=12)
    assert shown.at(10.0, 0.3).sum() < shown.at(1.0, 0.3).sum()  # higher values are darker
    assert figure.axes[0].get_xlim() == (-0.5, 10.5)


def test_the_svg_of_many_rollouts_stays_small(run):
    paths = np.repeat(run.paths, 25, axis=1)
    svg = to_svg(panels_figure([[Panel(run.layout, paths=paths)]]))
    assert len(svg) < 700_000
    assert b"<image" in svg


def test_blend_of_two_colours():
    assert blend("#000000", "#ffffff") == "#808080"
    assert blend("#102030", "#ffffff", 0.0) == "#102030"


def test_intervals_have_a_row_for_every_run():
    scores = {
        "goal_success": {"a": [0.9, 1.0], "b": None},
        "best_skill_distance": {"a": [1.0, 2.0], "b": [3.0, 5.0]},
        "spread": {"a": [1.0, 2.0], "b": [3.0, 5.0]},
        "other": {"a": [1.0, 2.0], "b": [3.0, 5.0]},
    }
    figure = intervals_figure(scores, {"spread": "lower"})
    first, second, third, fourth = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    assert first.get_xlabel() == "higher is better"
    assert second.get_xlabel() == third.get_xlabel() == "lower is better"
    assert fourth.get_xlabel() == ""
    assert [text.get_text() for text in first.texts] == ["none"]
    means = [c.get_offsets()[0, 0] for c in second.collections if len(c.get_offsets()) == 1]
    assert means == [1.5, 4.0]


def test_a_gridworld_marks_infinitely_negative_rewards():
    visits = np.zeros((2, 3, 5))
    visits[0, 1, 0] = visits[1, 1, 4] = 1.0
    reward = np.zeros((2, 3, 5))
    reward[0, 1, 0] = reward[1, 1, 4] = np.log(2)
    reward[0, 1, 4] = reward[1, 1, 0] = -np.inf
    crosses = [
        c.get_offsets() for axes in gridworld_figure(visits, reward).axes for c in axes.collections if c.get_paths()
    ]
    places = [tuple(map(float, xy)) for offsets in crosses for xy in offsets]
    assert (4.0, 1.0) in places
    assert (0.0, 1.0) in places


def test_the_page_lists_every_verdict_and_escapes_text():
    verdicts = [
        {"claim": "It <b>holds.", "measured": "1 & 2", "holds": True, "seeds": 3},
        {"claim": "It does not.", "measured": "3", "holds": False, "seeds": 3},
    ]
    record = {"figure": "fig_x", "title": "X", "preset": "fast", "num_seeds": 3, "verdicts": verdicts}
    page = results_html([{**record, "pictures": {"fig_x": 'A "caption"', "fig_x_more": "B"}}])
    assert "1 of 2 claims hold, over 3 seeds" in page
    assert page.count("✓ holds") == page.count("✗ does not") == 2  # in the table, and at the figure
    assert "It &lt;b&gt;holds." in page
    assert "1 &amp; 2" in page
    assert 'src="fig_x_more.png"' in page
    assert "<script" not in page

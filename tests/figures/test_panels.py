"""Panels of mazes, intervals, gridworlds, and the index page."""

import html
import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from edl.envs.layouts import load
from edl.evaluate.statistics import difference_interval
from edl.figures.gridworld import gridworld_figure
from edl.figures.intervals import intervals_figure, stack_levels
from edl.figures.palette import palette
from edl.figures.panels import ONE_COLOUR, STAR, Panel, blend, panels_figure
from edl.figures.results import FALSE_POSITIVES, false_positives, results_html, results_markdown
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
    assert [text.get_text() for text in first.texts] == ["no goals"]
    dots = [c.get_offsets() for c in second.collections if isinstance(c, PathCollection)]
    means = [points[0] for points in dots if len(points) == 1]
    assert [x for x, _ in means] == [1.5, 4.0]
    seeds = [points for points in dots if len(points) == 2]
    assert [points[:, 0].tolist() for points in seeds] == [[1.0, 2.0], [3.0, 5.0]]
    for (_, height), points in zip(means, seeds, strict=True):
        assert (points[:, 1] < height - 0.2).all()  # seeds are above the mean: the axis points down
    assert [text.get_text() for text in intervals_figure({"other": {"a": None}}).axes[0].texts] == ["none"]


def test_seeds_that_would_overlap_are_stacked():
    assert stack_levels(np.array([0.0, 0.05, 0.2, 0.21, 0.22, 0.23]), 0.1).tolist() == [0, 1, 0, 1, 2, 0]


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


EFFECT = {"delta": -0.75, "difference": 1.0}


def verdict(claim, outcome, source="paper"):
    return {
        "claim": claim,
        "test": "More of it | less.",
        "measured": ["1 & 2", "<3>"],
        "outcome": outcome,
        "effects": [EFFECT, {**EFFECT, "delta": 1.0}],
        "source": source,
    }


def figure_record(preset, *verdicts):
    pictures = {"fig_x": 'A "caption"', "fig_x_more": "B"}
    return {
        "figure": "fig_x",
        "title": "X",
        "preset": preset,
        "num_seeds": 3,
        "verdicts": verdicts,
        "pictures": pictures,
    }


RECORDS = [
    figure_record("fast", verdict("It <b>holds.", "holds"), verdict("It does not.", "refuted", "ours")),
    figure_record("paper", verdict("It <b>holds.", "undecided"), verdict("Only here.", "holds")),
]


def test_the_page_shows_the_verdicts_of_both_presets_and_escapes_text():
    page = results_html(RECORDS, {"fast": "", "paper": "paper"})
    assert "2 claims of the paper and 1 of ours were tested." in page
    fast = "1 hold, 0 undecided, 0 refuted; of ours 0 hold, 0 undecided, 1 refuted."
    assert f"Preset fast, 3 seeds: of the paper's claims {fast}" in html.unescape(page)
    only_paper = "1 hold, 1 undecided, 0 refuted; of ours not run."
    assert f"Preset paper, 3 seeds: of the paper's claims {only_paper}" in html.unescape(page)
    assert "if all 3 were wrong, up to about 0.3 would hold by chance" in page
    top = page[: page.index("<section")]
    rows = [row for row in top.split("<tr>") if "#fig_x" in row]
    assert [(row.count("✓ holds"), row.count("? undecided"), row.count("✗ refuted")) for row in rows] == [
        (1, 1, 0),
        (0, 0, 1),
        (1, 0, 0),
    ]
    assert [row.count("not run") for row in rows] == [0, 1, 1]
    assert "δ -0.75, +1.00" in rows[0]
    assert "It &lt;b&gt;holds." in page
    assert "1 &amp; 2<br>&lt;3&gt;" in page
    assert 'src="fig_x_more.png"' in page
    assert 'src="paper/fig_x_more.png"' in page
    assert "<script" not in page


def test_the_table_in_markdown_has_a_row_for_every_claim():
    lines = results_markdown(RECORDS).splitlines()
    paper, ours, *rows = [line for line in lines if line.startswith("| `fig_x`")]
    assert paper == "| `fig_x` | paper | 2 | 1 hold, 0 undecided, 0 refuted | 1 hold, 1 undecided, 0 refuted |"
    assert ours == "| `fig_x` | ours | 1 | 0 hold, 0 undecided, 1 refuted | not run |"
    assert [row.split(" | ")[1] for row in rows] == ["paper", "ours", "paper"]
    assert all(len(re.split(r"(?<!\\)\|", row)) == 7 for row in rows)  # a bar in a cell is escaped
    assert "**It &lt;b>holds.**<br>More of it \\| less." in rows[0]
    assert "**✓ holds**<br>1 & 2<br>&lt;3>" in rows[0]


@pytest.mark.parametrize("num_seeds", [3, 10])
def test_as_many_wrong_claims_hold_by_chance_as_the_page_says(num_seeds):
    scores = np.random.default_rng(0).normal(size=(2000, 2, num_seeds))
    held = [difference_interval(x, y, resamples=400).high < 0 for x, y in scores]
    assert np.mean(held) == pytest.approx(FALSE_POSITIVES[num_seeds], abs=0.02)


def test_the_share_of_wrong_claims_falls_with_the_number_of_seeds():
    assert false_positives(1) == 0.5
    assert false_positives(10_000) == 0.025
    assert np.all(np.diff([false_positives(seeds) for seeds in range(1, 60)]) < 0)

"""The curves of floor coverage have one line per method in both panels."""

import numpy as np

from edl.figures.robots import coverage_figure
from edl.figures.style import to_png


def test_both_panels_show_every_method():
    curve = [
        {"env_steps": 100, "seconds": 1.0, "floor_coverage": [10, 20]},
        {"env_steps": 200, "seconds": 4.0, "floor_coverage": [30, 50]},
    ]
    figure = coverage_figure({"ours": curve, "theirs": curve[:1]}, random=5.0)
    by_steps, by_time = figure.axes
    np.testing.assert_array_equal(by_steps.lines[0].get_xdata(), [100, 200])
    np.testing.assert_array_equal(by_time.lines[0].get_xdata(), [1, 4])
    np.testing.assert_array_equal(by_time.lines[0].get_ydata(), [15, 40])
    assert [text.get_text() for text in by_time.get_legend().get_texts()] == ["ours", "theirs", "random actions"]
    assert to_png(figure).startswith(b"\x89PNG")

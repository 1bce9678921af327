"""Axes that a user chooses: features, and angles in degrees."""

import numpy as np
import pytest

from edl.config import ConfigError
from edl.figures import states_figure
from edl.figures.axes import PlotAxis, parse_axes, project, show_axes


def test_features_and_angles():
    axes = parse_axes("angle(0, 1), 2", 3)
    assert axes == (PlotAxis(0, 1), PlotAxis(2))
    quarter = np.array([[0.0, 1.0, 5.0], [-1.0, 0.0, 6.0], [np.sqrt(0.5), -np.sqrt(0.5), 7.0]])
    np.testing.assert_allclose(project(quarter, axes), [[90, 5], [180, 6], [-45, 7]])
    np.testing.assert_array_equal(project(quarter, parse_axes("2,0", 3)), quarter[:, [2, 0]])
    np.testing.assert_array_equal(project(quarter, None), quarter)


def test_the_figure_names_its_axes():
    axes = parse_axes("angle(0,1),2", 3)
    figure = states_figure(None, project(np.random.default_rng(0).normal(size=(50, 3)), axes))
    show_axes(figure, axes)
    (drawn,) = [each for each in figure.axes if each.get_xlabel()]
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("angle of features 0 and 1 (degrees)", "feature 2")
    assert drawn.get_xticks().tolist() == [-180, -90, 0, 90, 180]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", r"dims must name two axes \(got 1 in '0'\)"),
        ("0,1,2", r"two axes \(got 3"),
        ("x,y", r"dims must be features or angles \(got 'x,y'\)"),
        ("0,3", r"dims must be below 3, the number of features \(got 3\)"),
    ],
)
def test_bad_axes_are_rejected(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_axes(text, 3)

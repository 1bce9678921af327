import numpy as np
import pytest

from edl.figures.curves import curve, curves_figure, format_steps, thin_curve


def test_lists_over_seeds_equal_rows_with_seeds():
    lists = [{"env_steps": 10 * i, "return": [i, 2.0 * i]} for i in range(5)]
    singles = [{"env_steps": 10 * i, "return": (seed + 1.0) * i, "seed": seed} for i in range(5) for seed in (0, 1)]
    for rows in (lists, singles):
        steps, values = curve(rows, "return")
        np.testing.assert_array_equal(steps, [0, 10, 20, 30, 40])
        np.testing.assert_array_equal(values, [[0, 1, 2, 3, 4], [0, 2, 4, 6, 8]])


def test_seeds_logged_at_different_steps_are_compared_on_the_range_of_both():
    rows = [{"env_steps": s, "return": float(s), "seed": 0} for s in (0, 10, 20)]
    rows += [{"env_steps": s, "return": 2.0 * s, "seed": 1} for s in (5, 15, 40)]
    steps, values = curve(rows, "return")
    np.testing.assert_array_equal(steps, [5, 10, 15, 20])
    np.testing.assert_allclose(values, [steps, 2 * steps])


def test_missing_null_and_infinite_values_are_skipped():
    rows = [{"env_steps": 0}, {"return": 1.0}, {"env_steps": 1, "return": None}, {"env_steps": 2, "return": np.nan}]
    assert curve(rows, "return") is None
    steps, values = curve([*rows, {"env_steps": 3, "return": [None, 7.0]}], "return")
    assert (steps.tolist(), values.tolist()) == ([3.0], [[7.0]])


def test_every_key_of_the_stage_has_a_panel():
    rows = [{"stage": "explore", "env_steps": i, "goal_distance": 1.0} for i in range(3)]
    rows += [{"stage": "learn", "env_steps": i, "return": 1.0, "goal_success": 0.1 * i} for i in range(3)]
    figure = curves_figure(rows, random={"goal_success": 0.04, "return": None})
    assert [text.get_text() for text in figure.texts if text.get_text()] == ["Goals reached", "Return"]
    success, returns = figure.axes
    np.testing.assert_allclose(success.lines[0].get_ydata(), [0, 0.1, 0.2])
    assert success.lines[1].get_ydata()[0] == 0.04
    assert len(returns.lines) == 1


def test_a_log_without_the_learn_stage_has_no_curves():
    assert curves_figure([]) is None
    assert curves_figure([{"stage": "discover", "loss": 1.0}]) is None


def test_long_logs_are_averaged():
    steps, values = thin_curve(np.arange(1000.0), np.ones((2, 1000)) * np.arange(1000.0))
    assert len(steps) == 200
    np.testing.assert_allclose(values, [steps, steps])


def test_the_figure_shows_the_curve(pixels):
    rows = [{"env_steps": 1000 * i, "goal_success": [0.5, 0.5]} for i in range(10)]
    assert pixels(curves_figure(rows)).count("#2076ae") > 500


@pytest.mark.parametrize(
    ("steps", "text"), [(0, "0"), (500, "500"), (250_000, "250k"), (1_500_000, "1.5M"), (12_500_000, "12.5M")]
)
def test_format_steps(steps, text):
    assert format_steps(steps) == text

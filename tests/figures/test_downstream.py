"""Learning curves of controllers over made-up results."""

import numpy as np

from edl.figures.downstream import downstream_figure


def made_up(pretraining: int) -> dict:
    """The result of a run with two seeds: three points of a curve, up to 100 steps on the task."""
    total = pretraining + 100
    return {
        "goals": [[0.0, 0.0]],
        "steps": {"pretraining": {"explore": 50, "learn": pretraining - 50}, "controller": 100, "total": total},
        "controller": {"curve": {"env_steps": [20, 60, 100], "success": [[0.0, 0.5, 1.0], [0.0, 0.3, 0.8]]}},
        "zero_shot": {"success": 0.7},
        "flat": {"curve": {"env_steps": [50, 100], "success": [[0.0, 0.1], [0.0, 0.3]]}},
        "flat_full": {"env_steps": total, "curve": {"env_steps": [50, total], "success": [[0.0, 0.6], [0.2, 0.6]]}},
    }


def lines_of(axes) -> list[tuple[list, list]]:
    return [tuple(np.round(line.get_data(), 6).tolist()) for line in axes.get_lines()]


def test_curves_are_means_and_the_second_panel_adds_pretraining():
    on_task, total = downstream_figure({"a": made_up(300), "b": made_up(900), "c": made_up(300)}).axes
    assert lines_of(on_task)[0] == ([20, 60, 100], [0, 0.4, 0.9])
    assert lines_of(on_task)[3] == ([50, 100], [0, 0.2])  # PPO without skills
    assert [steps for steps, _ in lines_of(total)] == [
        [320, 360, 400],
        [920, 960, 1000],
        [320, 360, 400],
        [50, 400],  # PPO without skills, once per number of steps
        [50, 1000],
    ]
    assert lines_of(total)[3][1] == [0.1, 0.6]
    legend = total.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c", "without skills"]


def test_without_the_full_budget_there_is_one_panel():
    result = made_up(300)
    del result["flat_full"]
    assert len(downstream_figure({"a": result}).axes) == 1

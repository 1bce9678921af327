"""The tables and the verdict of a sweep, from metrics written by the test."""

from edl.runs import grid as grids
from edl.runs.summary import markdown, summarise, verdict


def summary_of(num_seeds, means=(0.5, 0.85, 0.9)):
    run = {"env": "square", "num_seeds": num_seeds}
    asked = {"run": run, "grid": {"learner.ppo.gamma": [0.9, 0.95, 0.99]}, "metric": "goal_success"}
    grid = grids.parse(asked, "sweep.json")
    spread = 0.1 if num_seeds > 1 else 0.0
    scores = {
        number: {"mean": mean, "ci95": None if mean is None else [mean - spread, mean + spread]}
        for number, mean in enumerate(means)
    }
    return summarise(grid, {n: {"aggregate": {"goal_success": score}} for n, score in scores.items()})


def test_points_with_several_seeds_have_intervals():
    summary = summary_of(3)
    assert summary.rivals() == [1]
    assert verdict(summary) == (
        "Best by goal_success: point 002 (gamma 0.99), 0.900 [0.800, 1.000] over 3 seeds. "
        "The intervals of 1 other points overlap with it."
    )
    assert "| 0.500 | 0.400 to 0.600 |" in markdown(summary)


def test_one_seed_has_no_interval_and_tells_no_points_apart():
    summary = summary_of(1)
    assert summary.rivals() == [0, 1]
    assert verdict(summary).startswith("Best by goal_success: point 002 (gamma 0.99), 0.900 with one seed. ")
    assert "| 0.500 | - |" in markdown(summary)


def test_a_metric_that_is_not_finite_is_no_score():
    summary = summary_of(3, means=(0.5, None, 0.9))
    assert summary.best == 2
    assert summary.rivals() == []
    assert "| - | - |" in markdown(summary)

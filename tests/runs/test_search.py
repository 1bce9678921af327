"""Points of a search: in their ranges, the same for the same seed, and evenly spread for Sobol."""

import math

import numpy as np
import pytest

from edl.config import ConfigError
from edl.runs import grid as grids
from edl.runs import optuna_search
from edl.runs.search import Dimension, clearly_worse, round_seeds, sobol

RUN = {"env": "square", "explore": "random_walk", "discover": "kmeans", "num_seeds": 4}
SPACE = {
    "learner.ppo.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "learner.ppo.gamma": {"low": 0.9, "high": 0.99},
    "num_skills": {"low": 3, "high": 5},
    "discover": ["kmeans", "vqvae"],
}


def content(**search):
    return {"run": RUN, "search": {"method": "random", "points": 8, "space": SPACE} | search}


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_points_are_in_their_ranges_and_depend_on_the_seed_alone(method):
    found = grids.parse(content(method=method), "sweep.json")
    assert len(found.points) == 8
    for point in found.points:
        rate, gamma, skills, discover = point.values
        assert 1e-4 <= rate <= 1e-2
        assert 0.9 <= gamma <= 0.99
        assert skills in (3, 4, 5)
        assert discover in ("kmeans", "vqvae")
        assert (point.config.num_skills, point.config.discover) == (skills, discover)
        assert point.config.learner.ppo.learning_rate == rate
    assert [axis.traced for axis in found.axes] == [True, True, False, False]
    again, other = (grids.parse(content(method=method, seed=seed), "sweep.json") for seed in (0, 1))
    assert [point.values for point in again.points] == [point.values for point in found.points]
    assert [point.values for point in other.points] != [point.values for point in found.points]


def test_a_sobol_sequence_has_one_point_in_each_part_of_every_axis():
    points = sobol(16, 3, seed=5)
    for axis in range(3):
        assert sorted((16 * points[:, axis]).astype(int)) == list(range(16))
    np.testing.assert_array_equal(sobol(11, 3, seed=5), points[:11])


def test_values_of_a_range():
    rate, size, word = Dimension("a", 1e-4, 1e-2, log=True), Dimension("b", 2, 4), Dimension("c", choices=("x", "y"))
    assert rate.value(0.5) == pytest.approx(1e-3)
    assert Dimension("d", 0.0, 2.0).value(0.25) == 0.5
    assert [size.value(u) for u in (0.0, 0.34, 0.99)] == [2, 3, 4]
    assert [word.value(u) for u in (0.0, 0.49, 0.5, 0.99)] == ["x", "x", "y", "y"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "sobl"}, "Did you mean 'sobol'"),
        ({"method": None}, "needs a method: random, sobol, optuna"),
        ({"point": 3}, "Did you mean 'points'"),
        ({"points": 0}, r"points in \[search\] of sweep.json must be an integer from 1 to 10,000 \(got 0\)"),
        ({"points": 20_000}, "must be an integer from 1 to 10,000"),
        ({"batch": 4}, "batch in .* is a setting of optuna"),
        ({"space": {}}, r"\[search.space\] in sweep.json is empty"),
        ({"space": {"learner.ppo.gama": {"low": 0.1, "high": 0.2}}}, "Did you mean 'gamma'"),
        ({"space": {"learner.ppo.gamma": {"low": 0.2, "high": 0.1}}}, "low of .* must be less than high"),
        ({"space": {"learner.ppo.gamma": {"low": 0.0, "high": 0.1, "log": True}}}, "must be above 0 for log"),
        ({"space": {"learner.ppo.gamma": {"lo": 0.0, "high": 0.1}}}, "Did you mean 'low'"),
        ({"space": {"learner.ppo.gamma": 0.5}}, "must be a list of values, or a range"),
    ],
)
def test_bad_searches_are_rejected(changes, message):
    with pytest.raises(ConfigError, match=message):
        grids.parse(content(**changes), "sweep.json")
    with pytest.raises(ConfigError, match=r"has \[grid\] and \[search\]"):
        grids.parse(content() | {"grid": {"seed": [1]}}, "sweep.json")


def test_clearly_worse_points_are_those_whose_interval_is_beside_the_best():
    scores = {
        "best": {"mean": 0.9, "ci95": [0.8, 0.95]},
        "near": {"mean": 0.7, "ci95": [0.5, 0.85]},
        "far": {"mean": 0.3, "ci95": [0.1, 0.79]},
        "failed": None,
    }
    assert clearly_worse(scores, "max") == {"far", "failed"}
    assert clearly_worse(scores, "min") == {"best", "failed"}  # near overlaps with far
    assert clearly_worse({"failed": None}, "max") == {"failed"}
    assert round_seeds(5, 2) == [3, 2]
    assert round_seeds(1, 3) == [1]


def test_metrics_of_further_seeds_are_joined():
    def metrics(*values):
        return {"per_seed": [{"seed": i, "goal_success": value} for i, value in enumerate(values)], "aggregate": {}}

    joined = optuna_search.joined_metrics(metrics(0.0, 0.5), metrics(1.0))
    assert math.isclose(joined["aggregate"]["goal_success"]["mean"], 0.5)
    assert joined["num_seeds"] == 3

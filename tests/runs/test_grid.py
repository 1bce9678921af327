"""The file of a sweep: what it asks for, and what is refused."""

import json

import pytest

from edl.config import ConfigError
from edl.runs import grid

RUN = {"env": "square", "explore": "oracle", "discover": "kmeans", "num_seeds": 2}


def parse(**asked):
    return grid.parse({"run": RUN, **asked}, "sweep.toml")


def test_floats_are_one_group_and_the_rest_is_an_outer_loop():
    found = parse(grid={"learner.epsilon": [1.0, 2.0, 3.0], "learner.reward": ["progress", "shipped"]})
    assert [axis.traced for axis in found.axes] == [True, False]
    assert [[point.number for point in group] for group in found.groups] == [[0, 2, 4], [1, 3, 5]]
    assert [point.config.learner.epsilon for point in found.points] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert {point.config.learner.reward for point in found.groups[1]} == {"shipped"}


def test_settings_can_go_together():
    found = parse(grid={"learner.ppo.learning_rate, learner.ppo.last_learning_rate": [1e-3, 1e-4]})
    rates = [(p.config.learner.ppo.learning_rate, p.config.learner.ppo.last_learning_rate) for p in found.points]
    assert rates == [(1e-3, 1e-3), (1e-4, 1e-4)]


def test_distances_are_minimised():
    asked = {"learner.epsilon": [1.0]}
    assert parse(grid=asked, metric="goal_distance").goal == "min"
    assert parse(grid=asked).goal == "max"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"grid": {"learner.epsilom": [1.0]}}, "did you mean 'epsilon'"),
        ({"grid": {"lerner.epsilon": [1.0]}}, "did you mean 'learner'"),
        ({"grid": {"learner.epsilon": ["wide"]}}, "float is wanted"),
        ({"grid": {"learner.epsilon": []}}, "at least one value"),
        ({"grid": {"learner.epsilon": 2.0}}, "a list of at least one"),
        ({"grid": {"learner.epsilon": [2.0, 2.0]}}, "twice"),
        ({"grid": {"baseline.ppo.gamma": [0.9]}}, "no baseline"),
        ({"grid": {}}, "empty"),
        ({"grid": {"learner.epsilon": [-1.0]}}, "not negative"),
        ({"grid": {"learner.epsilon": [1.0]}, "metric": "goal_succes"}, "did you mean 'goal_success'"),
        ({"grid": {"learner.epsilon": [1.0]}, "gird": {}}, "did you mean 'grid'"),
    ],
)
def test_what_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        parse(**asked)


def test_json_and_toml_say_the_same(tmp_path):
    toml, plain = tmp_path / "a.toml", tmp_path / "a.json"
    toml.write_text('[run]\nenv = "square"\nexplore = "oracle"\n[grid]\n"learner.epsilon" = [1.0, 2.0]\n')
    asked = {"run": {"env": "square", "explore": "oracle"}, "grid": {"learner.epsilon": [1.0, 2.0]}}
    plain.write_text(json.dumps(asked))
    assert grid.read(toml) == grid.read(plain)
    toml.write_text("[run")
    with pytest.raises(ConfigError, match="not TOML"):
        grid.read(toml)


def test_the_papers_grid_has_240_runs():
    found = grid.read("benchmarks/paper_grid.toml")
    config = found.points[0].config
    assert len(found.groups) == 1
    assert len(found.points) * config.num_seeds == 240
    steps = config.learner.ppo.iterations * config.learner.ppo.rollouts * 2 * 50
    assert steps == 12_500_000

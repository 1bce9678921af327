"""The file of a sweep: its points, and the input that is rejected."""

import json

import pytest

from edl.config import ConfigError
from edl.runs import grid

RUN = {"env": "square", "explore": "oracle", "discover": "kmeans", "num_seeds": 2}


def parse(**asked):
    return grid.parse({"run": RUN, **asked}, "sweep.toml")


def test_points_that_differ_in_floats_only_form_one_group():
    found = parse(grid={"learner.epsilon": [1.0, 2.0, 3.0], "learner.reward": ["progress", "shipped"]})
    assert [axis.traced for axis in found.axes] == [True, False]
    assert [[point.number for point in group] for group in found.groups] == [[0, 2, 4], [1, 3, 5]]
    assert [point.config.learner.epsilon for point in found.points] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert {point.config.learner.reward for point in found.groups[1]} == {"shipped"}


def test_several_settings_can_share_an_axis():
    found = parse(grid={"learner.ppo.learning_rate, learner.ppo.last_learning_rate": [1e-3, 1e-4]})
    rates = [(p.config.learner.ppo.learning_rate, p.config.learner.ppo.last_learning_rate) for p in found.points]
    assert rates == [(1e-3, 1e-3), (1e-4, 1e-4)]


def test_dotted_names_in_run_are_settings_in_its_tables():
    dotted = {"learner.ppo.gamma": 0.9, "learner": {"ppo": {"rollouts": 8}}}
    tables = {"learner": {"ppo": {"gamma": 0.9, "rollouts": 8}}}
    found, same = (parse(run=RUN | settings, grid={"seed": [0, 1]}) for settings in (dotted, tables))
    assert [point.config for point in found.points] == [point.config for point in same.points]
    assert found.points[0].config.learner.ppo.gamma == 0.9
    with pytest.raises(ConfigError, match=r"unknown setting in .*'gama'"):
        parse(run=RUN | {"learner.ppo.gama": 0.9}, grid={"seed": [0, 1]})


def test_distances_are_minimised():
    asked = {"learner.epsilon": [1.0]}
    assert parse(grid=asked, metric="goal_distance").goal == "min"
    assert parse(grid=asked).goal == "max"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"grid": {"learner.epsilom": [1.0]}}, "Did you mean 'epsilon'"),
        ({"grid": {"lerner.epsilon": [1.0]}}, "Did you mean 'learner'"),
        ({"grid": {"learner.epsilon": ["wide"]}}, "must be a number"),
        ({"grid": {"learner.epsilon": []}}, "at least one value"),
        ({"grid": {"learner.epsilon": 2.0}}, "must be a list of at least one"),
        ({"grid": {"learner.epsilon": [2.0, 2.0]}}, "twice"),
        ({"grid": {"baseline.ppo.gamma": [0.9]}}, "this run has no baseline"),
        ({"grid": {}}, "empty"),
        ({"grid": {"learner.epsilon": [-1.0]}}, "must be at least 0"),
        ({"grid": {"learner.epsilon": [1.0]}, "metric": "goal_succes"}, "Did you mean 'goal_success'"),
        ({"grid": {"learner.epsilon": [1.0]}, "gird": {}}, "Did you mean 'grid'"),
    ],
)
def test_bad_input_is_rejected(asked, message):
    with pytest.raises(ConfigError, match=message):
        parse(**asked)


def test_json_and_toml_are_equivalent(tmp_path):
    toml, plain = tmp_path / "a.toml", tmp_path / "a.json"
    toml.write_text('[run]\nenv = "square"\nexplore = "oracle"\n[grid]\n"learner.epsilon" = [1.0, 2.0]\n')
    asked = {"run": {"env": "square", "explore": "oracle"}, "grid": {"learner.epsilon": [1.0, 2.0]}}
    plain.write_text(json.dumps(asked))
    assert grid.read(toml) == grid.read(plain)
    toml.write_text("[run")
    with pytest.raises(ConfigError, match="not valid TOML"):
        grid.read(toml)


def test_the_papers_grid_has_48_points_and_480_runs():
    found = grid.read("benchmarks/paper_grid.toml")
    config = found.points[0].config
    assert len(found.groups) == 2  # with and without normalised inputs
    assert len(found.points) == 48
    assert len(found.points) * config.num_seeds == 480
    steps = config.learner.ppo.iterations * config.learner.ppo.rollouts * 2 * 50
    assert steps == 12_500_000

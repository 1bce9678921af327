"""The stages as functions: they give what `edl.run` gives, and accept what a user has."""

import importlib
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.api.settings import build_config
from edl.config import ConfigError
from edl.learn import LearnConfig
from edl.program import Program, stop_at_target
from edl.runs.pipeline import plan
from edl.runs.presets import complete
from tests.api.conftest import EXPLORE, LEARN


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_stage_by_stage_gives_the_policy_of_a_run(tiny):
    states = edl.explore("square", "random_walk", **EXPLORE)
    assert_same(states, tiny.states)
    skills = edl.discover(states, "kmeans", num_skills=3)
    assert_same(skills, tiny.skills)
    run = edl.learn("square", skills, states=states, **LEARN)
    assert_same(run.policy, tiny.policy)
    assert run.metrics["goal_success"] == tiny.metrics["goal_success"]


def test_own_goals_stay_where_they_are_and_can_be_loaded(tmp_path):
    goals = [[0.0, -1.0], [0.0, -2.0], [1.0, -2.0]]
    skills = edl.SkillModel.from_goals(goals)
    assert [int(skills.assign(jnp.asarray(goal))) for goal in goals] == [0, 1, 2]
    np.testing.assert_allclose(skills.decode(skills.codes[1]), goals[1], atol=1e-6)
    run = edl.learn("square", skills, out=tmp_path / "run", **LEARN)
    np.testing.assert_array_equal(run.skills.goals, jnp.asarray(goals))
    assert run.config.num_skills == 3
    loaded = edl.load(tmp_path / "run")
    assert_same(loaded.policy, run.policy)
    assert_same(loaded.skills, run.skills)
    with pytest.raises(ConfigError, match=r"other settings: .*discover was 'python:"):
        edl.learn("square", goals[:2], out=tmp_path / "run", **LEARN)


@pytest.mark.parametrize(
    "settings",
    [{}, {"learner": None}, {"learner": {"ppo": {"iterations": 5}}}, {"learner": LearnConfig()}],
    ids=["none", "None", "dict", "config"],
)
def test_own_goals_are_not_moved_whatever_the_form_of_the_settings(monkeypatch, settings):
    run_with = Mock(return_value=Mock(spec=edl.Run))
    monkeypatch.setattr("edl.api.stages.run_with", run_with)

    def stages(**more):
        edl.learn("square", [[0.0, -1.0], [1.0, -2.0]], **settings, **more)
        _, passed, _ = run_with.call_args.args
        return [stage.name for stage in plan(complete(build_config("square", passed)))]

    assert "measure" in stages()  # the distance is walking distance, with which goals can be moved
    assert "place" not in stages()
    assert "place" in stages(**{"learner.place_goals": True})
    assert "place" in stages(states=[[0.0, -1.0], [1.0, -2.0]])


def test_own_goals_outside_of_the_maze_are_rejected():
    message = r"inside of the maze 'square'.*\(got \[2\.0, 2\.0\], \[1\.0, 0\.0\]\).*y from -4\.5 to 0\.5"
    with pytest.raises(ConfigError, match=message):
        edl.learn("square", [[0.0, -1.0], [2.0, 2.0], [1.0, 0.0]])  # above the maze, and a blocked cell


def test_own_states_replace_exploration(tmp_path):
    rng = np.random.default_rng(0)
    array = rng.uniform(-0.4, 0.4, (64, 2))
    run = edl.run("square", states=array, discover="kmeans", num_skills=2, until="discover", out=tmp_path / "run")
    np.testing.assert_allclose(run.states.samples, array, atol=1e-6)
    assert_same(edl.discover(array.tolist(), "kmeans", num_skills=2), run.skills)
    again = edl.run("square", states=array, discover="kmeans", num_skills=2, until="discover", out=tmp_path / "run")
    assert_same(again.skills, run.skills)
    with pytest.raises(ConfigError, match="other settings: explore was"):
        edl.run("square", states=array + 1e-3, discover="kmeans", num_skills=2, out=tmp_path / "run")
    right = edl.run("square", states=array, region="x > 0", until="explore")
    assert right.states.samples.shape == (int(np.sum(array[:, 0] > 0)), 2)


@pytest.mark.slow
def test_a_baseline_picks_by_practice_if_it_has_no_rule():
    ppo = {"iterations": 2, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]}
    run = edl.baseline("reverse_mi", "square", num_skills=2, baseline={"ppo": ppo, "hidden": [8]})
    assert run.config.method == "reverse_mi"
    assert run.skills is None
    assert run.pick([[0.0, 0.0], [1.0, 1.0]]).shape == (2,)
    with pytest.raises(ConfigError, match=r"unknown method 'dyain'. Did you mean 'diayn'"):
        edl.baseline("dyain")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: edl.discover([[0.0, 0.0]], "kmean"), "unknown discoverer 'kmean'. Did you mean 'kmeans'"),
        (lambda: edl.discover([[0.0, 0.0]], num_skills=3), "num_skills=3 exceeds the 1 different states"),
        (lambda: edl.discover([[0.0, float("nan")]], num_skills=1), r"samples must be finite \(got .* in row 0\)"),
        (lambda: edl.discover([0.0], num_skills=1), r"samples must be numbers with one row per state"),
        (lambda: edl.discover([[0.0]], explorer={}), "unknown setting of edl.discover 'explorer'"),
        (lambda: edl.learn("square", [0.0, 0.0]), "goals must be numbers with one row per state"),
        (lambda: edl.learn("square", edl.SkillModel.from_goals([[0.0]])), r"must have shape \(k, 2\) in this env"),
        (lambda: edl.SkillModel.from_goals([[0.0]], [[0.0, 1.0]]), "same number of columns"),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_the_stages_are_still_packages():
    from edl.explore import FrontierConfig
    from edl.learn import LearnConfig

    assert edl.explore is importlib.import_module("edl.explore")
    assert edl.explore.METHODS["frontier"].config is FrontierConfig
    assert edl.learn.LearnConfig is LearnConfig
    assert all(callable(each) for each in (edl.explore, edl.discover, edl.learn))


def test_a_program_stops_when_it_is_done():
    def step(state, key):
        return state + 1, {"value": (state + 1).astype(jnp.float32)}

    counting = Program(lambda key: jnp.int32(0), step, lambda state: state, iterations=1000)
    assert int(edl.run_to_end(counting)[0]) == 1000
    stopping = stop_at_target(counting, "value", 25.0, rate=1.0)
    result, log = edl.run_to_end(stopping, key=3)
    assert int(result) == 25
    assert log["iteration"][-1] == 30  # the log has rows of ten iterations
    np.testing.assert_allclose(log["value"][0], np.mean(np.arange(1, 11)))

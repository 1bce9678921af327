"""`make_env` resolves every way of naming an env, and only the user can cause an import."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.api.settings import build_config
from edl.cli import main
from edl.config import ConfigError
from edl.envs import ENVS, MazeFactory, layouts, register
from edl.envs.gridworld import GridWorld, gridworld
from edl.envs.maze import Maze
from edl.interop import env_names
from edl.interop.env_names import (
    allow_import,
    is_maze,
    layout_for,
    make_env,
    needs_import,
    remember_factory,
    runs_on_host,
)
from edl.runs.config import RunConfig
from edl.runs.resolve import resolve_config
from tests.interop.hosted import Line

CORRIDOR = "+-+-+-+\n|S    |\n+-+-+-+"
MODULE = """
import pathlib
pathlib.Path({marker!r}).touch()
from tests.interop.hosted import Line
"""


@pytest.fixture(autouse=True)
def clean():
    """Undo registrations, remembered factories and allowed imports after each test."""
    before = dict(ENVS)
    yield
    ENVS.clear()
    ENVS.update(before)
    env_names.FACTORIES.clear()
    env_names.IMPORTS_ALLOWED.clear()


def make_grid(horizon: int = 9):
    return gridworld(3, 3, horizon)


def test_the_built_in_mazes():
    assert isinstance(make_env("square"), Maze)
    assert make_env("square", horizon=7).horizon == 7
    assert is_maze("square")
    assert layout_for("tree").name == "tree"
    assert not runs_on_host(make_env("square"))


def test_a_maze_file_or_its_saved_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(CORRIDOR)
    for name, text in ((str(path), None), ("gone/mine.txt", CORRIDOR), ("gone", CORRIDOR)):
        assert is_maze(name)
        assert int(make_env(name, maze=text).num_cells) == 3
        assert layout_for(name, text).text == CORRIDOR
    assert layout_for("gone/mine.txt", CORRIDOR).name == "mine"


def test_a_random_maze_by_its_name_or_its_saved_text():
    name = "random:4x3?loops=0.1&seed=2"
    assert is_maze(name)
    assert not needs_import(name)
    assert int(make_env(name, horizon=7).num_cells) == 12
    assert layout_for(name).name == layout_for(name, CORRIDOR).name == name
    assert layout_for(name, CORRIDOR).text == CORRIDOR  # a run keeps its maze, whatever the name means later
    with pytest.raises(ConfigError, match="must have a size of WIDTHxHEIGHT cells"):
        make_env(allow_import("random:Random"))


def test_a_registered_maze_has_a_layout():
    register("corridor", MazeFactory(layouts.parse(CORRIDOR)))
    assert is_maze("corridor")
    assert layout_for("corridor").text == CORRIDOR
    assert make_env("corridor", horizon=3).horizon == 3


@pytest.mark.parametrize("how", ["registered", "module", "function", "lambda"])
def test_a_jax_env_from_a_registered_name_a_module_or_a_factory(how):
    if how == "registered":
        register(name := "grid", make_grid)
    elif how == "module":
        name = allow_import("tests.interop.test_env_names:make_grid")
    else:
        name = remember_factory(make_grid if how == "function" else lambda horizon=9: make_grid(horizon))
    assert isinstance(make_env(name), GridWorld)
    assert [make_env(name, horizon=horizon).horizon for horizon in (0, 4)] == [9, 4]
    assert not is_maze(name)
    assert layout_for(name) is None
    assert not runs_on_host(make_env(name))
    with pytest.raises(ConfigError, match="has fixed features"):
        make_env(name, features="0")


def test_a_registered_factory_may_make_a_gymnasium_env():
    register("line", Line)
    env = make_env("line", features="0", horizon=5)
    assert (env.horizon, env.feature_size) == (5, 1)
    assert runs_on_host(env)
    assert make_env("line", features="0", horizon=5) is env


@pytest.mark.parametrize("features", [[0, 1], (0, 1), np.array([0, 1]), jnp.array([0, 1]), [np.int64(0), 1]], ids=str)
def test_features_may_be_a_list_or_an_array(features):
    register("line", Line)
    env = make_env("line", features=features, horizon=5)
    assert env.feature_size == 2
    assert make_env("line", features=(0, 1), horizon=5) is env
    for given in (RunConfig(env="line", features=features), build_config("line", {"features": features})):
        assert resolve_config(given).features == "0,1"


def test_features_may_be_one_number():
    register("line", Line)
    for features in (0, np.int64(0), jnp.array(0), [jnp.array(0)]):
        env = make_env("line", features=features, horizon=5)
        assert env.feature_size == 1
        assert make_env("line", features="0", horizon=5).feature_size == 1
        assert resolve_config(RunConfig(env="line", features=features)).features == "0"
    assert make_env("ant", features=1) is make_env("ant", features=(1,))


@pytest.mark.parametrize("features", [[[0, 1]], {0, 1}, np.array([[0, 1]])], ids=str)
def test_features_of_another_kind_are_rejected(features):
    register("line", Line)
    with pytest.raises(ConfigError, match=r"features must be .*dimensions of the observation"):
        make_env("line", features=features)


def test_features_of_a_robot_may_be_a_list():
    assert make_env("ant", features=[0, 1, 2]) is make_env("ant", features=(0, 1, 2))


def test_features_are_for_envs_with_a_choice():
    with pytest.raises(ConfigError, match=r"env 'square' has fixed features \(got features='0'\)"):
        make_env("square", features="0")


def test_an_unknown_name_is_rejected_with_a_suggestion():
    with pytest.raises(ConfigError) as caught:
        make_env("sqare")
    assert str(caught.value).startswith("unknown env 'sqare'. Did you mean 'square'? Available: square, tree,")


def test_which_names_are_mazes():
    assert all(map(is_maze, ("square", "maze.txt", "mazes/tree.txt", "corridor_left")))
    assert not any(map(is_maze, ("CartPole-v1", "edl/Square-v0", "mine:Env-v0", "mine.envs:make", "A-v0?b=1")))
    assert not is_maze("python:<lambda>")


def test_factories_get_a_name():
    assert remember_factory(Line) == "tests.interop.hosted:Line"
    assert remember_factory(lambda: Line()) == "python:test_factories_get_a_name.<locals>.<lambda>"
    assert remember_factory(Line, "given") == "given"
    assert not is_maze("given")
    with pytest.raises(ConfigError, match="'square' is built in"):
        remember_factory(Line, "square")


def test_a_factory_that_cannot_be_imported_must_be_passed_again():
    with pytest.raises(ConfigError, match=r"Pass it again: edl.load\(path, env=...\)"):
        make_env("python:<lambda>")


WITHOUT_GYMNASIUM = """
import sys
sys.modules["gymnasium"] = None
import edl
from edl.envs import register
from edl.envs.gridworld import OneStep
from edl.interop.env_names import allow_import, make_env
register("mine", OneStep)
for name in ("square", "mine", allow_import("edl.envs.gridworld:OneStep")):
    print(make_env(name, horizon=3).horizon)
try:
    make_env("CartPole-v1")
except ValueError as error:
    print(error)
"""


def test_jax_envs_need_no_gymnasium():
    printed = subprocess.check_output([sys.executable, "-W", "error", "-c", WITHOUT_GYMNASIUM], text=True)
    *horizons, message = printed.strip().splitlines()
    assert horizons == ["3", "3", "3"]
    assert message == "env 'CartPole-v1' needs Gymnasium, which is not installed: pip install gymnasium."


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A run whose config.json names a module, and the file that importing it would create."""
    marker = tmp_path / "imported"
    (tmp_path / "planted_env.py").write_text(MODULE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    edl.run("square", explore="oracle", until="explore", out=run)
    yield run, marker
    sys.modules.pop("planted_env", None)


def plant(run, name):
    saved = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**saved, "env": name, "maze": None}))
    (run / "manifest.json").unlink()  # whoever plants a name would do so, too


@pytest.mark.parametrize("name", ["planted_env:Line", "planted_env:Line-v0"])
def test_a_run_folder_cannot_cause_an_import(planted, name, capsys):
    run, marker = planted
    plant(run, name)
    with pytest.raises(ConfigError, match="named by a file"):
        edl.load(run)
    for command in ("evaluate", "figure", "discover", "export", "downstream"):
        assert main([command, str(run)]) == 2
    assert main(["run", "--config", str(run / "config.json"), "--out", str(run.parent / "other")]) == 2
    assert main(["run", "--resume", "--out", str(run)]) == 2
    assert "--env" in capsys.readouterr().err
    assert not marker.exists()


def test_the_user_can_cause_an_import(planted):
    run, marker = planted
    plant(run, "planted_env:Line")
    main(["evaluate", str(run), "--env", "planted_env:Line"])  # fails later, because the states are those of a maze
    assert marker.exists()


def test_which_names_need_an_import():
    assert needs_import("module:Name")
    assert needs_import("module:Name-v0?a=1")
    assert not needs_import("CartPole-v1?mode=c:d")
    assert not needs_import("square")
    assert not needs_import("python:<lambda>")

"""Envs by name: the built-in mazes, maze files, and envs that a user registers."""

import functools
import pathlib

import pytest

from edl.config import ConfigError
from edl.envs import ENVS, MazeFactory, layout_of, layouts, make, register
from edl.envs.gridworld import OneStep, gridworld

TWO_STARTS = layouts.parse("+-+-+-+\n|S   S|\n+-+-+-+", "two")


@pytest.fixture
def registered():
    """`register`, undone after the test."""
    before = dict(ENVS)
    yield register
    ENVS.clear()
    ENVS.update(before)


def make_grid(horizon: int = 9):
    return gridworld(3, 3, horizon)


def test_the_built_in_layouts_are_registered():
    mazes = {name: factory for name, factory in ENVS.items() if isinstance(factory, MazeFactory)}
    assert set(mazes) == set(layouts.NAMES)
    for name, factory in mazes.items():
        assert int(factory().num_cells) == int(make(name).num_cells) == len(layout_of(name).cells)


def test_the_path_of_a_maze_file_is_a_name(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(TWO_STARTS.text)
    assert int(make(path).num_starts) == int(make(str(path)).num_starts) == 2
    assert layout_of(path).text == TWO_STARTS.text


def test_a_path_object_is_never_a_registered_name():
    with pytest.raises(ConfigError, match="cannot be read"):
        make(pathlib.Path("no_such_folder/square"))


@pytest.mark.parametrize(
    ("factory", "own"), [(make_grid, 9), (functools.partial(make_grid, horizon=4), 4), (OneStep, 1)]
)
def test_a_registered_env_is_made_by_its_name_with_any_horizon(registered, factory, own):
    registered("mine", factory)
    assert make("mine").horizon == own
    assert make("mine", horizon=6).horizon == 6


def test_mazes_have_a_horizon_too(registered):
    registered("two", MazeFactory(TWO_STARTS))
    assert [make("square", horizon=horizon).horizon for horizon in (0, 7)] == [50, 7]
    assert make("two", horizon=7).horizon == 7
    assert layout_of("two") is TWO_STARTS


def test_a_factory_without_a_horizon_accepts_only_the_horizon_of_its_env(registered):
    registered("fixed", lambda: make_grid())
    assert make("fixed", horizon=9).horizon == 9
    with pytest.raises(ConfigError, match=r"horizon must be 9 in env 'fixed' \(got 8\)"):
        make("fixed", horizon=8)


def test_a_name_can_be_registered_again_unless_it_is_built_in(registered):
    registered("mine", make_grid)
    registered("mine", OneStep)
    assert make("mine").horizon == 1
    with pytest.raises(ConfigError, match="'square' is built in"):
        registered("square", make_grid)


@pytest.mark.parametrize("name", ["a b", "module:name", "maze.txt", ""])
def test_bad_names_are_rejected(registered, name):
    with pytest.raises(ConfigError, match="letters, digits"):
        registered(name, make_grid)
    assert name not in ENVS


def test_a_factory_must_make_an_env(registered):
    registered("mine", dict)
    with pytest.raises(ConfigError, match=r"env 'mine' must be an edl.envs.Env \(got a dict\)"):
        make("mine")


def test_an_env_that_is_not_a_maze_has_no_layout(registered):
    registered("mine", make_grid)
    with pytest.raises(ConfigError, match="not a maze"):
        layout_of("mine")


@pytest.mark.parametrize(
    ("name", "words"),
    [("bottelneck", "unknown env 'bottelneck'. Did you mean 'bottleneck'?"), ("zzz", "unknown env 'zzz'. Available: ")],
)
def test_an_unknown_name_lists_the_known_ones(name, words):
    with pytest.raises(ConfigError) as caught:
        make(name)
    message = str(caught.value)
    assert message.startswith(words)
    assert all(known in message for known in ENVS)
    assert "a Gymnasium id and module:name also work" in message


def test_a_missing_maze_file_is_named():
    with pytest.raises(ConfigError, match=r"maze 'no/such/maze.txt' cannot be read"):
        make("no/such/maze.txt")

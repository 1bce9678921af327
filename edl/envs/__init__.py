"""Worlds, by name. ``WORLDS`` is what the command line lists; any maze text file is a world too."""

import difflib
import functools
import pathlib

from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.base import Box, Discrete, Env, Step
from edl.envs.layouts import Layout
from edl.envs.maze import Maze, maze

WORLDS = {
    name: functools.partial(maze, name) for name in ("square", "tree", "bottleneck", "corridor_center", "corridor_left")
}

__all__ = ["WORLDS", "Box", "Discrete", "Env", "Layout", "Maze", "Step", "layout_of", "make", "maze"]


def make(name_or_path: str | pathlib.Path) -> Env:
    """The world of that name, or the maze in that file."""
    return maze(layout_of(name_or_path))


def layout_of(name_or_path: str | pathlib.Path) -> Layout:
    """The layout behind a maze: of that name, or in that file."""
    name = str(name_or_path)
    looks_like_file = isinstance(name_or_path, pathlib.Path) or any(sign in name for sign in "/\\.")
    if name not in WORLDS and not looks_like_file and not pathlib.Path(name).is_file():
        close = difflib.get_close_matches(name.lower(), WORLDS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"unknown world {name!r}: {hint}Give one of {', '.join(WORLDS)}, or the path of a maze text file."
        )
    return layouts.load(name_or_path)

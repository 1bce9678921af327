"""Environments. ``ENVS`` maps a name to a factory; the path of any maze text file is a name too."""

from edl.envs.base import Box, Discrete, Env, Step
from edl.envs.layouts import Layout
from edl.envs.maze import Maze, maze
from edl.envs.registry import ENVS, MazeFactory, layout_of, make, register

__all__ = [
    "ENVS",
    "Box",
    "Discrete",
    "Env",
    "Layout",
    "Maze",
    "MazeFactory",
    "Step",
    "layout_of",
    "make",
    "maze",
    "register",
]

"""When a goal is reached: how near to it a rollout must end, and in which unit. Learning and evaluation use it.

| env | a goal is reached within |
|---|---|
| a maze, also with a robot in it | 0.5 cells |
| another env whose features say where the agent is (`Env.features_are_place`) | 1 unit, as for Ant and HalfCheetah |
| any other env | 0.5 standard deviations of the explored features, which have no common unit |
"""

from typing import Literal, NamedTuple

from edl.envs.base import Env
from edl.envs.maze import Maze
from edl.envs.mjx.env import MjxMaze

SUCCESS_RADIUS = 0.5
"""The radius in mazes, and in envs whose features have no common unit."""
DistanceUnit = Literal["cells", "units", "standard deviations"]


class Success(NamedTuple):
    """A goal is reached within ``radius``, a number of ``unit``."""

    radius: float
    unit: DistanceUnit


IN_MAZE = Success(SUCCESS_RADIUS, "cells")
IN_OPEN = Success(1.0, "units")
WITHOUT_UNIT = Success(SUCCESS_RADIUS, "standard deviations")


def success_of(env: Env) -> Success:
    """When a goal is reached in this env."""
    if isinstance(env, Maze | MjxMaze):
        return IN_MAZE
    return IN_OPEN if env.features_are_place else WITHOUT_UNIT

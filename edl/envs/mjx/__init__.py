"""Robots on MuJoCo's MJX, in JAX: Gym's Ant and HalfCheetah, robots in mazes, and any MuJoCo model.

Needs the extra ``mjx``. `edl.envs.mjx.robots` explains the names, and docs/robots.md how to use them.
"""

from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.physics import Physics, PhysicsState

__all__ = ["MjxEnv", "MjxMaze", "Physics", "PhysicsState"]

"""The same robot in C MuJoCo on the CPU, with the model's own solver settings: the reference for MJX.

A robot in a maze has all walls of the maze here, and not only the nearest ones.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.library import load_library
from edl.envs.mjx.physics import PhysicsState, compile_spec, control_range
from edl.envs.mjx.walls import HEIGHT, add_all_walls


def reference_model(env: MjxEnv | MjxMaze, wall_height: float = HEIGHT) -> Any:
    """The ``MjModel`` of an env, as its XML has it. ``wall_height`` is in units."""
    spec = env.physics.spec.copy()
    if isinstance(env, MjxMaze):
        add_all_walls(spec, env.walls, wall_height)
    return compile_spec(env.physics.name, spec)


class ReferenceRobot:
    """One episode in MuJoCo on the CPU. Observations and actions are those of the env. Robots can share a ``model``."""

    def __init__(self, env: MjxEnv | MjxMaze, model: Any = None):
        self.mujoco = load_library().mujoco
        self.physics = env.physics
        self.model = reference_model(env) if model is None else model
        self.data = self.mujoco.MjData(self.model)

    def start(self, state: PhysicsState) -> Float[np.ndarray, " o"]:
        """Begin an episode in a state of the env."""
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:], self.data.act[:] = state.qpos, state.qvel, state.act
        self.mujoco.mj_forward(self.model, self.data)
        return self.observe()

    def step(self, action: Float[np.ndarray, " a"]) -> Float[np.ndarray, " o"]:
        self.data.ctrl[:] = np.clip(action, *control_range(self.model))
        self.mujoco.mj_step(self.model, self.data, self.physics.settings.frame_skip)
        return self.observe()

    def observe(self) -> Float[np.ndarray, " o"]:
        self.mujoco.mj_kinematics(self.model, self.data)
        bodies = self.data.xpos[list(self.physics.bodies)]
        return np.concatenate([self.data.qpos, self.data.qvel, bodies.ravel()])

    def play(self, state: PhysicsState, actions: Float[np.ndarray, "t a"]) -> Float[np.ndarray, "t1 o"]:
        """The observations of an episode with given actions."""
        return np.stack([self.start(state), *(self.step(action) for action in actions)])

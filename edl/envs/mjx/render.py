"""Pictures of a robot, where MuJoCo finds an offscreen renderer: EGL or OSMesa (Debian: libegl1, libosmesa6)."""

import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.library import load_library
from edl.envs.mjx.reference import reference_model
from edl.envs.mjx.walls import UNITS_PER_CELL

BACKENDS = ("egl", "osmesa")
WORKER = pathlib.Path(__file__).with_name("render_worker.py")
TIMEOUT_SECONDS = 120
DISTANCE_PER_RADIUS = 3.5
"""Distance of the camera, relative to the size of the robot."""
WALL_HEIGHT = 0.6
"""Walls are drawn low, because they would hide the robot."""


class View(NamedTuple):
    """The angle of the camera in degrees, and its smallest distance."""

    elevation: float
    distance: float


OPEN_VIEW, MAZE_VIEW = View(-30.0, 0.0), View(-65.0, 2.0 * UNITS_PER_CELL)
NO_RENDERER = (
    "There are no pictures, because MuJoCo found no offscreen renderer.\n"
    "On Debian: apt install libegl1 or libosmesa6. Then draw them with `edl figure RUN`."
)


def render_poses(
    env: MjxEnv | MjxMaze, poses: Float[np.ndarray, "n q"], height: int = 150, width: int = 200
) -> UInt8[np.ndarray, "n h w 3"] | None:
    """One picture per pose, which is a qpos; None if there is no renderer. Never raises because of OpenGL."""
    mujoco, model = load_library().mujoco, reference_model(env, WALL_HEIGHT)
    view = MAZE_VIEW if isinstance(env, MjxMaze) else OPEN_VIEW
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(pathlib.Path(folder) / name) for name in ("model.mjb", "poses.npz", "frames.npy")]
        mujoco.mj_saveModel(model, paths[0])
        distance = max(view.distance, DISTANCE_PER_RADIUS * _radius(model, poses[0]))
        np.savez(paths[1], poses=poses, height=height, width=width, distance=distance, elevation=view.elevation)
        chosen = os.environ.get("MUJOCO_GL")
        rendered = any(_run_worker(backend, paths) for backend in ([chosen] if chosen else BACKENDS))
        return np.load(paths[2]) if rendered else None


def _radius(model: Any, pose: Float[np.ndarray, " q"]) -> float:
    """The distance from the first body to the farthest point of the robot."""
    mujoco = load_library().mujoco
    data = mujoco.MjData(model)
    data.qpos[:] = pose
    mujoco.mj_kinematics(model, data)
    of_robot = model.geom_bodyid > 0
    gaps = np.linalg.norm(data.geom_xpos[of_robot] - data.xpos[1], axis=-1)
    return float(np.max(gaps + model.geom_rbound[of_robot], initial=0.1))


def _run_worker(backend: str, paths: list[str]) -> bool:
    """Whether the pictures could be rendered with this backend."""
    command = [sys.executable, str(WORKER), *paths]
    try:
        done = subprocess.run(
            command, env={**os.environ, "MUJOCO_GL": backend}, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and pathlib.Path(paths[2]).is_file()

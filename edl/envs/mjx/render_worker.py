"""Renders pictures in a process of its own, because a missing OpenGL library can abort the process that loads it.

    python render_worker.py MODEL.mjb POSES.npz FRAMES.npy

Needs mujoco and NumPy only. ``MUJOCO_GL`` is set by the caller, because mujoco reads it when it is imported.
"""

import importlib
import sys
from typing import Any

import numpy as np

mujoco: Any = importlib.import_module("mujoco")


def main(model_path: str, poses_path: str, frames_path: str) -> None:
    """Render each pose from a camera that looks at the robot's first body."""
    model = mujoco.MjModel.from_binary_path(model_path)
    with np.load(poses_path) as given:
        poses, height, width, distance, elevation = (
            given[name] for name in ("poses", "height", "width", "distance", "elevation")
        )
    data, camera = mujoco.MjData(model), mujoco.MjvCamera()
    camera.distance, camera.elevation, camera.azimuth = float(distance), float(elevation), 90.0
    frames = []
    with mujoco.Renderer(model, int(height), int(width)) as renderer:
        for pose in poses:
            data.qpos[:] = pose
            mujoco.mj_forward(model, data)
            camera.lookat[:] = data.xpos[1]
            renderer.update_scene(data, camera)
            frames.append(renderer.render().copy())
    np.save(frames_path, np.stack(frames))


if __name__ == "__main__":
    main(*sys.argv[1:])

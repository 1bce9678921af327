"""Our mazes by their Gymnasium ids. Importing this module registers them, so both of these work.

    gymnasium.make("edl.interop.registration:edl/Square-v0")

    from edl.interop.registration import register_envs
    register_envs()
    gymnasium.make("edl/Square-v0")

``import edl`` registers nothing, because it does not import Gymnasium.
"""

from typing import Any

import gymnasium

from edl.envs.maze import HORIZON

GYMNASIUM_ENVS: dict[str, dict[str, Any]] = {
    "edl/Square-v0": {"env": "square"},
    "edl/Tree-v0": {"env": "tree"},
    "edl/Bottleneck-v0": {"env": "bottleneck"},
    "edl/CorridorCenter-v0": {"env": "corridor_center"},
    "edl/CorridorLeft-v0": {"env": "corridor_left"},
    "edl/Spiral-v0": {"env": "spiral"},
    "edl/Maze-v0": {},
}
"""Ids and the arguments of their envs. ``edl/Maze-v0`` needs a ``path`` or a ``text``."""


def register_envs() -> None:
    """Register the ids that Gymnasium does not know yet."""
    for env_id, kwargs in GYMNASIUM_ENVS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="edl.interop.maze_envs:MazeEnv",
                vector_entry_point="edl.interop.maze_envs:MazeVectorEnv",
                max_episode_steps=HORIZON,
                kwargs=kwargs,
            )


register_envs()

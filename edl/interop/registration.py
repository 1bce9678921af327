"""Our worlds by their Gymnasium ids: ``import edl`` announces them, and imports Gymnasium no sooner than the user does.

Gymnasium 1.x has no plugins: an id exists once a package that registers it was imported. To do that without importing
Gymnasium, which training never needs, the registration waits for the moment Gymnasium is imported.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterable

WORLDS = {
    "edl/Square-v0": {"world": "square"},
    "edl/Tree-v0": {"world": "tree"},
    "edl/Bottleneck-v0": {"world": "bottleneck"},
    "edl/CorridorCenter-v0": {"world": "corridor_center"},
    "edl/CorridorLeft-v0": {"world": "corridor_left"},
    "edl/Maze-v0": {},
}
"""Ids, and what they are made with. The last one wants a ``path`` or a ``text``."""

HORIZON = 50


def announce() -> None:
    """Register our worlds now if Gymnasium is imported, and else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


def register() -> None:
    """Register the ids that are not registered yet."""
    import gymnasium

    for name, kwargs in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="edl.interop.maze_envs:MazeEnv",
                vector_entry_point="edl.interop.maze_envs:MazeVectorEnv",
                max_episode_steps=HORIZON,
                kwargs=kwargs,
            )


class _AfterGymnasium(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find Gymnasium, and has its loader register our worlds afterwards."""

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_register(module: types.ModuleType) -> None:
                execute(module)
                register()

            # The loader itself stays in place: importlib.resources and inspect ask it for more than this.
            loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec

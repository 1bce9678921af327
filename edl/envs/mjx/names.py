"""Makes the env of a robot's name, and finds its maze: the part of `edl.interop.env_names` that is about robots.

`file_text` is the text of the maze or of the model that a name gives. A run keeps it, so that the run can be loaded
after the file is gone.
"""

import dataclasses
import functools

from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.base import Env
from edl.envs.features import Features
from edl.envs.layouts import Layout
from edl.envs.mjx.robots import MODEL, is_robot, open_robot, parse_name, read_model, robot_from_model, robot_in_maze
from edl.envs.random_maze import is_random
from edl.envs.registry import BUILT_IN, layout_of

__all__ = ["file_text", "is_robot", "make_robot", "names_file", "robot_layout"]


# Cached because compiling a model takes a while, and because envs of one run should be one object.
@functools.lru_cache(maxsize=8)
def make_robot(name: str, features: str | Features | None = None, horizon: int = 0, text: str | None = None) -> Env:
    """The env of a name such as ``ant:bottleneck``. ``text`` is the saved text of its maze or model."""
    parts = parse_name(name)
    if parts.kind == MODEL:
        return robot_from_model(name, read_model(name) if text is None else text, features, horizon)
    layout = robot_layout(name, text)
    if layout is None:
        return open_robot(name, features, horizon)
    if features is not None:
        raise ConfigError(f"env {name!r} has fixed features (got features={features!r}). Leave out --features.")
    return robot_in_maze(name, layout, horizon)


def robot_layout(name: str, text: str | None = None) -> Layout | None:
    """The maze of a robot, from its saved text if given; None if it has none."""
    parts = parse_name(name)
    if parts.kind == MODEL or not parts.place:
        return None
    layout = layout_of(parts.place) if text is None else layouts.parse(text)
    return dataclasses.replace(layout, name=f"{parts.kind}:{parts.place}")


def names_file(name: str) -> bool:
    """Whether a name gives the path of a model or of a maze."""
    parts = parse_name(name)
    return parts.kind == MODEL or bool(parts.place and parts.place not in BUILT_IN and not is_random(parts.place))


def file_text(name: str) -> str | None:
    """The text of the maze or of the model that a name gives; None if the name says it all."""
    parts = parse_name(name)
    if parts.kind == MODEL:
        return read_model(name)
    layout = robot_layout(name)
    return None if layout is None or parts.place in BUILT_IN else layout.text

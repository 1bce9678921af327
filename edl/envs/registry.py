"""Envs by name. ``ENVS`` maps a name to a factory, and `register` adds one.

    edl.register_env("my_env", MyEnv)

A factory is callable without arguments. If it has a parameter ``horizon``, ``--horizon`` sets it. The path of a maze
text file is a name too, and so is ``random:8x8?seed=7`` (see `edl.envs.random_maze`). `edl.interop.env_names` adds
Gymnasium ids, ``module:name`` and Python factories.
"""

import functools
import inspect
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from edl.config import ConfigError, check, check_name
from edl.envs import layouts
from edl.envs.base import Env
from edl.envs.layouts import Layout
from edl.envs.maze import HORIZON, Maze, maze
from edl.envs.mjx.robots import ant, half_cheetah
from edl.envs.random_maze import is_random, random_layout

Factory = Callable[..., Any]
"""Makes an env: an `Env`, or an env of another library that `edl.interop` can adapt."""
NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
HINT = (
    "The path of a maze text file, random:WIDTHxHEIGHT, ant:MAZE, mjx:FILE.xml, a Gymnasium id and module:name also "
    "work, and edl.register_env adds a name."
)


class MazeFactory(NamedTuple):
    """Makes a maze from the name of a built-in layout, a text file, or a `Layout`."""

    source: str | pathlib.Path | Layout

    @property
    def layout(self) -> Layout:
        return self.source if isinstance(self.source, Layout) else layouts.load(self.source)

    def __call__(self, horizon: int = HORIZON) -> Maze:
        return maze(self.layout, horizon)


ENVS: dict[str, Factory] = {
    "square": MazeFactory("square"),
    "tree": MazeFactory("tree"),
    "bottleneck": MazeFactory("bottleneck"),
    "corridor_center": MazeFactory("corridor_center"),
    "corridor_left": MazeFactory("corridor_left"),
    "spiral": MazeFactory("spiral"),
    "u": MazeFactory("u"),
    "big": MazeFactory("big"),
    "hardest": MazeFactory("hardest"),
    "leads_easy": MazeFactory("leads_easy"),
    "leads_u": MazeFactory("leads_u"),
    "leads_hard": MazeFactory("leads_hard"),
    "ant": ant,
    "half_cheetah": half_cheetah,
}
BUILT_IN = frozenset(ENVS)


def register(name: str, factory: Factory) -> None:
    """Add an env to ``ENVS``. Registering a name again replaces its factory, except for the built-in names."""
    check(
        NAME.fullmatch(name) is not None,
        f"the name of an env must start with a letter or '_', followed by letters, digits, '_' and '-' (got {name!r}). "
        "Choose another name.",
    )
    check(name not in BUILT_IN, f"env {name!r} is built in. Choose another name.")
    check(
        callable(factory),
        f"the factory of env {name!r} must be callable (got a {type(factory).__name__}). Pass a class or a function.",
    )
    ENVS[name] = factory


def make(name_or_path: str | pathlib.Path, horizon: int = 0) -> Env:
    """The registered env or random maze of that name, or the maze in that file. ``horizon=0`` keeps the env's own."""
    name = str(name_or_path)
    if name in ENVS and not isinstance(name_or_path, pathlib.Path):
        factory = ENVS[name]
    else:
        factory = MazeFactory(layout_of(name_or_path))
    return check_env(name, with_horizon(factory, horizon)(), horizon)


def layout_of(name_or_path: str | pathlib.Path) -> Layout:
    """The layout of a registered maze, of a random maze, or the one in a text file."""
    name = str(name_or_path)
    if is_random(name) and not isinstance(name_or_path, pathlib.Path):
        return random_layout(name)
    if isinstance(name_or_path, pathlib.Path) or (name not in ENVS and is_path(name)):
        return layouts.load(pathlib.Path(name))
    check_name(name, ENVS, "env", HINT)
    factory = ENVS[name]
    if not isinstance(factory, MazeFactory):
        raise ConfigError(f"env {name!r} is not a maze and has no layout. Use the name of a maze.")
    return factory.layout


def is_path(name: str) -> bool:
    """Whether a name that is not registered looks like the path of a maze file."""
    return any(sign in name for sign in "/\\.") or is_file(name)


def is_file(name: str | pathlib.Path) -> bool:
    """Whether a file of that name exists. A name may be too long for a file."""
    try:
        return pathlib.Path(name).is_file()
    except (OSError, ValueError):
        return False


def with_horizon(factory: Factory, horizon: int) -> Factory:
    """``factory`` with its parameter ``horizon`` set, if it has one and ``horizon`` is not 0."""
    check(horizon >= 0, f"horizon must be at least 0 (got {horizon}). 0 keeps the env's own horizon.")
    return functools.partial(factory, horizon=horizon) if horizon and _takes_horizon(factory) else factory


def check_env(name: str, made: Any, horizon: int = 0) -> Env:
    """Check that a factory made an `Env` with the requested horizon."""
    if not isinstance(made, Env):
        raise ConfigError(
            f"env {name!r} must be an edl.envs.Env (got a {type(made).__name__}). Return one from the env's factory."
        )
    if horizon not in (0, made.horizon):
        raise ConfigError(
            f"horizon must be {made.horizon} in env {name!r} (got {horizon}). "
            "To make it a setting, give the env's factory a parameter 'horizon'."
        )
    return made


def _takes_horizon(factory: Factory) -> bool:
    try:
        return "horizon" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False

"""Worlds that are not ours, by name: which names mean Gymnasium. Gymnasium itself is imported when one is made."""

import pathlib
import re
from collections.abc import Callable
from typing import Any

from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.host import Features

ID = re.compile(r"(?:[\w.-]+:)?(?:[\w-]+/)?[\w.-]+-v\d+(?:\?.*)?", re.ASCII)
"""``name-v0``, with a namespace, a module to import first, and arguments, if need be: ``Ant-v5?frame_skip=2``."""
NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
"""``module:name`` of a class or function that makes an environment."""
LOCAL = "python:"
"""Begins the name of a factory that cannot be imported by its name."""

NAMED: set[str] = set()
"""Worlds behind an import that the user has named in this process."""
FACTORIES: dict[str, Callable[[], Any]] = {}
"""Factories that were given as Python objects, by the name under which a run keeps them."""


def is_host_id(name: str) -> bool:
    """Whether ``--env NAME`` means a Gymnasium environment rather than a maze."""
    if name in FACTORIES or name.startswith(LOCAL):
        return True
    return any(pattern.fullmatch(name) for pattern in (ID, NAME)) and not pathlib.Path(name).is_file()


def needs_import(name: str) -> bool:
    """Whether a module has to be imported to make the world. That runs its code, so a file may not ask for it."""
    return is_host_id(name) and ":" in name.partition("?")[0]


def name_world(name: str) -> str:
    """The user names a world, who may have any module imported; a run's folder or a config file may not."""
    NAMED.add(name)
    return name


def remember(factory: Callable[[], Any], name: str | None = None) -> str:
    """The name of a factory. One that can be imported by its name can be loaded again without being given."""
    if name is None:
        module, label = getattr(factory, "__module__", "?"), getattr(factory, "__qualname__", type(factory).__name__)
        importable = module != "__main__" and NAME.fullmatch(f"{module}:{label}") is not None
        name = f"{module}:{label}" if importable else f"{LOCAL}{label}"
    FACTORIES[name] = factory
    return name


def host_world(name: str, features: str | Features | None = None, horizon: int = 0) -> Env:
    """The world of that name; zero ``horizon`` leaves that to the world."""
    if needs_import(name) and name not in FACTORIES and name not in NAMED and not name.startswith(LOCAL):
        raise ConfigError(
            f"the world {name!r} was named by a file, and importing it would run code: name it yourself, "
            f"with --env {name}, or in Python edl.load(path, env={name!r})."
        )
    try:
        from edl.interop import gymnasium_envs
    except ImportError as error:
        raise ConfigError(f"world {name!r} needs Gymnasium, which is not installed: pip install gymnasium.") from error
    return gymnasium_envs.host_env(name, FACTORIES.get(name), features, horizon)

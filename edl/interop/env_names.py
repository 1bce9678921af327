"""`make_env` resolves every way of naming an env.

* a registered name (``edl.envs.ENVS``), a random maze (``random:8x8?seed=7``), or the path of a maze text file,
* a robot (``ant``, ``ant:bottleneck``, ``mjx:FILE.xml``: see `edl.envs.mjx.robots`),
* a Gymnasium id with optional arguments: ``Ant-v5?frame_skip=2``,
* ``module:name`` of a class or function that makes an env,
* a Python factory, given to ``edl.run(env=...)`` and kept under a name by `remember_factory`.

A factory returns an `edl.envs.Env`, a Brax-style env or a Gymnasium env. Gymnasium is imported for its own envs only.

Importing a module runs its code. Only the user may cause that, with `allow_import`; a run folder or a config file
cannot.
"""

import ast
import functools
import importlib
import pathlib
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from edl.config import ConfigError, check
from edl.envs import layouts
from edl.envs.base import Env
from edl.envs.clock import timed_env
from edl.envs.features import Features, count_features, parse_features
from edl.envs.host import DEFAULT_HORIZON, HostEnv, hosts_of
from edl.envs.layouts import Layout
from edl.envs.mjx.names import file_text, is_robot, make_robot, names_file, robot_layout
from edl.envs.random_maze import is_random
from edl.envs.registry import BUILT_IN, ENVS, Factory, MazeFactory, check_env, is_file, layout_of, with_horizon
from edl.interop.brax_envs import brax_env, is_brax_style, observation_size_of

GYMNASIUM_ID = re.compile(r"(?:[\w.-]+:)?(?:[\w-]+/)?[\w.-]+-v\d+(?:\?.*)?", re.ASCII)
"""``name-v0``, with an optional module to import first, a namespace, and arguments."""
MODULE_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
"""``module:name`` of a factory."""
LOCAL = "python:"
"""Prefix of the name of a factory that cannot be imported, e.g. a lambda."""

IMPORTS_ALLOWED: set[str] = set()
"""Names that the user has given in this process, and whose modules may therefore be imported."""
FACTORIES: dict[str, Factory] = {}
"""Factories that the user has given as Python objects, by the name that the run stores."""


def make_env(
    name: str,
    *,
    features: Any = None,
    horizon: int = 0,
    maze: str | None = None,
    timed: bool = False,
) -> Env:
    """The env of that name. ``horizon=0`` keeps the env's own; ``maze`` is the saved text of a maze or model file.

    ``features`` are text such as "0,1", a tuple, a list or an array of dimensions, or a function of the observation.
    With ``timed``, observations include the time left (`edl.envs.clock`), except in mazes and of robots.
    """
    check(
        not timed or not (names_robot(name) or is_maze(name)),
        f"timed must be false in env {name!r} (got True): mazes and robots show no time left. Leave out --timed.",
    )
    features = _hashable_features(features)
    if names_robot(name):
        return make_robot(name, features, horizon, maze)
    if is_maze(name):
        _check_no_features(name, features)
        layout = _maze_layout(name, maze)
        return check_env(name, with_horizon(MazeFactory(layout), horizon)(), horizon)
    _check_import_allowed(name)
    return _build(name, FACTORIES.get(name) or ENVS.get(name), features, horizon, timed)


def _hashable_features(features: Any) -> str | Features | None:
    """Features as a key of the caches of envs: a list or an array becomes a tuple, and so does one number."""
    if isinstance(features, np.generic | np.ndarray | jax.Array):
        features = features.tolist()
    if isinstance(features, int):
        features = (features,)
    if isinstance(features, list | tuple):
        features = tuple(each.tolist() if isinstance(each, np.generic | jax.Array) else each for each in features)
    try:
        hash(features)
    except TypeError as error:
        raise ConfigError(
            f"features must be dimensions of the observation, e.g. (0, 1), or a function (got {features!r}). "
            "Change --features, e.g. to '0,1'."
        ) from error
    return features


def make_env_for_user(name: str, *, features: Any = None, horizon: int = 0, maze: str | None = None) -> Env:
    """`make_env` for a name that the user has typed: its module may be imported."""
    return make_env(allow_import(name), features=features, horizon=horizon, maze=maze)


def layout_for(name: str, maze: str | None = None) -> Layout | None:
    """The layout of a maze, or of a robot's maze, from its saved text if given; None if the env has no maze."""
    if names_robot(name):
        return robot_layout(name, maze)
    return _maze_layout(name, maze) if is_maze(name) else None


def text_to_keep(name: str, text: str | None = None) -> str | None:
    """The text of the maze or MuJoCo model that a run keeps, from ``text`` if given; None if the name says it all."""
    if names_robot(name) and text is None:
        return file_text(name)
    return _maze_layout(name, text).text if is_maze(name) and name not in BUILT_IN else text


def reads_file(name: str) -> bool:
    """Whether a name gives the path of a maze or of a MuJoCo model, whose text a run keeps."""
    if names_robot(name):
        return names_file(name)
    return is_maze(name) and name not in ENVS and not is_random(name)


def is_maze(name: str) -> bool:
    """Whether a name means a point maze: a registered one, a random one, or a maze file.

    The file need not exist, because a run keeps its text. So a name that is of no other kind counts as a maze file.
    """
    if name in FACTORIES or name.startswith(LOCAL) or is_robot(name):
        return False
    if name in ENVS:
        return isinstance(ENVS[name], MazeFactory)
    return not _is_id(name)


def runs_on_host(env: Env) -> bool:
    """Whether the env is stepped outside of JAX."""
    return bool(hosts_of(env))


def needs_import(name: str) -> bool:
    """Whether making the env imports a module that the name gives."""
    if name in ENVS or name.startswith(LOCAL) or is_robot(name):
        return False
    return _is_id(name) and (":" in name.partition("?")[0] or _names_file(name))


def _names_file(name: str) -> bool:
    """Whether an argument of a Gymnasium id may be the path of a file, which making the env would open."""
    arguments = [part.partition("=") for part in name.partition("?")[2].split("&")]
    texts = [(key, value) for key, _, value in arguments if not _is_number(value)]
    return any(key.endswith(("path", "file")) or set(value) & set("/\\.~%") for key, value in texts)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def allow_import(name: str) -> str:
    """Allow the import of the module in ``name``. Call it only for names that the user has typed."""
    IMPORTS_ALLOWED.add(name)
    return name


def remember_factory(factory: Factory, name: str | None = None) -> str:
    """Keep a factory under its name, and return the name: ``module:name`` if it can be imported again."""
    if name is None:
        module, label = getattr(factory, "__module__", "?"), getattr(factory, "__qualname__", type(factory).__name__)
        importable = module != "__main__" and MODULE_NAME.fullmatch(f"{module}:{label}") is not None
        name = f"{module}:{label}" if importable else f"{LOCAL}{label}"
    if name in BUILT_IN:
        raise ConfigError(f"env {name!r} is built in and takes no factory. Leave out env=.")
    FACTORIES[name] = factory
    return name


def names_robot(name: str) -> bool:
    """Whether a name means a robot, and not a Python factory from a module of the same name."""
    return is_robot(name) and name not in FACTORIES


def is_gymnasium_id(name: str) -> bool:
    """Whether a name is a Gymnasium id, whose envs run outside of JAX."""
    return name not in FACTORIES and name not in ENVS and GYMNASIUM_ID.fullmatch(name) is not None


def _is_id(name: str) -> bool:
    """Whether the name is a Gymnasium id or ``module:name``."""
    if is_random(name):
        return False
    matches = any(pattern.fullmatch(name) for pattern in (GYMNASIUM_ID, MODULE_NAME))
    return matches and not is_file(name)


def _maze_layout(name: str, text: str | None) -> Layout:
    if text is None:
        return layout_of(name)
    return layouts.parse(text, name if is_random(name) else pathlib.Path(name).stem)


def _check_no_features(name: str, features: str | Features | None) -> None:
    if features is not None:
        raise ConfigError(f"env {name!r} has fixed features (got features={features!r}). Leave out --features.")


def _check_import_allowed(name: str) -> None:
    if needs_import(name) and name not in FACTORIES and name not in IMPORTS_ALLOWED:
        raise ConfigError(
            f"env {name!r} was named by a file, and importing it would run code or open files. If you trust it, name "
            f"it yourself: --env {shlex.quote(name)}, or in Python edl.load(path, env={name!r})."
        )


def _factory_of(name: str) -> Factory:
    """The factory of a Gymnasium id or of ``module:name``."""
    if name.startswith(LOCAL):
        raise ConfigError(
            f"the env of this run was the Python object {name.removeprefix(LOCAL)}. "
            "Pass it again: edl.load(path, env=...)."
        )
    if MODULE_NAME.fullmatch(name) and not GYMNASIUM_ID.fullmatch(name):
        return _import_factory(name)
    env_id, _, arguments = name.partition("?")
    return functools.partial(_import_gymnasium_envs(name).make, env_id, **_parse_arguments(name, arguments))


def _import_factory(name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the user's module is in the folder in which the command runs
    try:
        factory = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"env {name!r} cannot be imported ({error}). module:name must name a class or function that makes an env. "
            "Check the name, or run in the folder of the module."
        ) from error
    if not callable(factory):
        raise ConfigError(
            f"env {name!r} must be a class or function (got a {type(factory).__name__}). Check the name after ':'."
        )
    return factory


def _parse_arguments(name: str, text: str) -> dict[str, Any]:
    """``a=1&b=false`` as keyword arguments."""
    values: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(
                f"the arguments of env {name!r} must be key=value, joined by '&' (got {part!r}). "
                "For example: Ant-v5?frame_skip=2."
            )
        try:
            values[key] = ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(value.lower(), value))
        except (ValueError, SyntaxError):
            values[key] = value
    return values


def _import_gymnasium_envs(name: str) -> Any:
    try:
        from edl.interop import gymnasium_envs
    except ImportError as error:
        raise ConfigError(f"env {name!r} needs Gymnasium, which is not installed: pip install gymnasium.") from error
    return gymnasium_envs


# Cached because envs outside of JAX are static to `jit`: a second object would compile every program again.
@functools.lru_cache(maxsize=8)
def _build(name: str, factory: Factory | None, features: str | Features | None, horizon: int, timed: bool) -> Env:
    if timed:
        env = _build(name, factory, features, horizon, False)
        return env.with_time_left() if isinstance(env, HostEnv) else timed_env(env)
    factory = with_horizon(_factory_of(name) if factory is None else factory, horizon)
    made = _call(name, factory)
    if isinstance(made, Env):
        _check_no_features(name, features)
        return check_env(name, made, horizon)
    if is_brax_style(made):
        size = observation_size_of(name, made)
        chosen = parse_features(features, size)
        return brax_env(made, chosen, size, count_features(chosen, size), horizon or DEFAULT_HORIZON)
    return _import_gymnasium_envs(name).host_env(name, factory, made, features, horizon)


def _call(name: str, factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except ConfigError:
        raise
    except Exception as error:
        # Gymnasium's DependencyNotInstalled is not an ImportError, and Gymnasium may not be installed itself.
        if isinstance(error, ImportError) or type(error).__name__ == "DependencyNotInstalled":
            raise ConfigError(
                f"env {name!r} needs a package that is not installed: {error}. For MuJoCo, in a checkout, "
                "pip install '.[mujoco]'."
            ) from error
        raise ConfigError(
            f"env {name!r} cannot be made ({type(error).__name__}: {error}). Check the name: it must be a Gymnasium "
            "id, or module:name of a class or function that makes an env."
        ) from error

"""Any Gymnasium environment as a world of ours: by id, by ``module:name``, or by a factory.

    edl run --env MountainCarContinuous-v0 --features "0,1"
    edl.run(lambda: MyEnv(size=3), features=(0, 1))

Observations must be a Box of one axis, actions a Box of finite bounds or Discrete; for anything else there is an error
that names the wrapper to use. Batches are stepped in this process, or in one worker process per core where stepping is
slow enough for that to pay. Which of the two never shows in a result.
"""

import ast
import functools
import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.host import Features, HostEnv
from edl.interop.env_worker import Factory
from edl.interop.brax_envs import brax_world, is_brax_style, observation_size_of
from edl.interop.gymnasium_host import GymnasiumHost
from edl.interop.env_names import ID, LOCAL, NAME

HORIZON = 200
"""Steps of an episode at most, unless told otherwise: skills are short."""
WORTH_A_WORKER = 5e-5
"""Seconds a step from which on workers are faster than stepping here."""
MOST_WORKERS = 8
TRIAL = 100
"""Steps by which the cost of one is estimated."""


def factory_of(name: str) -> Factory:
    """What makes the environment of that name."""
    if name.startswith(LOCAL):
        raise ConfigError(
            f"the world of this run was a Python object, {name.removeprefix(LOCAL)}: "
            "give it again, as in edl.load(path, env=...)."
        )
    if NAME.fullmatch(name) and not ID.fullmatch(name):
        return _imported(name)
    known, _, options = name.partition("?")
    return functools.partial(_make, known, **_arguments(name, options))


def _make(name: str, **arguments: Any) -> gymnasium.Env:
    return gymnasium.make(name, disable_env_checker=True, **arguments)


def _arguments(name: str, text: str) -> dict[str, Any]:
    """``a=1&b=false`` as keyword arguments."""
    values: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"world {name!r} has {part!r} after the '?': key=value, joined by '&', is wanted.")
        try:
            values[key] = ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(value.lower(), value))
        except (ValueError, SyntaxError):
            values[key] = value
    return values


def _imported(name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a command is run where the user's module is
    try:
        found = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"world {name!r} cannot be imported ({error}): a class or function that makes a Gymnasium environment is "
            "wanted. Check the name, or run where its module can be found."
        ) from error
    if not callable(found):
        raise ConfigError(f"world {name!r} is a {type(found).__name__}: a class or function is wanted.")
    return found


@functools.lru_cache(maxsize=8)
def host_env(
    name: str,
    factory: Factory | None = None,
    features: str | Features | None = None,
    horizon: int = 0,
    workers: int = -1,
) -> Env:
    """The world that ``factory`` makes, or the one of that name: Gymnasium's, Brax-style, or one of ours.

    Zero ``horizon`` means the world's own, up to `HORIZON`; ``workers=-1``, as many as pay.
    """
    factory = factory_of(name) if factory is None else factory
    first = _first(name, factory)
    if isinstance(first, Env):
        return first
    if is_brax_style(first):
        about = features_of(features, size := observation_size_of(name, first))
        return brax_world(first, about, size, _feature_size(about, size), horizon or HORIZON)
    if not isinstance(first, gymnasium.Env):
        raise ConfigError(f"world {name!r} made a {type(first).__name__}: a gymnasium.Env is wanted.")
    size, low, high, num_actions = _sizes(name, first)
    limit = 0 if first.spec is None else first.spec.max_episode_steps or 0
    if limit and horizon > limit:
        raise ConfigError(f"horizon={horizon}: {name} ends after {limit} steps. Change --horizon.")
    about = features_of(features, size)
    if workers < 0:
        workers = _workers_that_pay(first)
    feature_size = _feature_size(about, size)
    horizon = horizon or min(limit or HORIZON, HORIZON)
    return HostEnv(
        low=jnp.asarray(low, jnp.float32),
        high=jnp.asarray(high, jnp.float32),
        host=GymnasiumHost(name, factory, first, horizon, workers),
        about=about,
        horizon=horizon,
        observation_size=size,
        feature_size=feature_size,
        num_actions=num_actions,
    )


def features_of(features: str | Features | None, size: int) -> Features:
    """``"0,1"`` as dimensions; None as all of them."""
    if features is None or callable(features):
        return tuple(range(size)) if features is None else features
    try:
        dims = tuple(int(part) for part in (features.split(",") if isinstance(features, str) else features))
    except (TypeError, ValueError):
        dims = ()
    if not dims or len(set(dims)) != len(dims) or not all(0 <= dim < size for dim in dims):
        raise ConfigError(
            f"features={features!r}: numbers of different dimensions of the observation are wanted, 0 to {size - 1}, "
            "as in '0,1'. Change --features."
        )
    return dims


def _feature_size(about: Features, size: int) -> int:
    if not callable(about):
        return len(about)
    try:
        shape = jax.eval_shape(about, jax.ShapeDtypeStruct((size,), jnp.float32)).shape
    except Exception as error:
        raise ConfigError(
            f"features={about!r} fails on an observation of {size} numbers ({type(error).__name__}: {error}): a "
            "function of one observation, written with jax.numpy, is wanted."
        ) from error
    if len(shape) != 1:
        raise ConfigError(f"features={about!r} gives an array of shape {shape}: a vector is wanted.")
    return shape[0]


def _first(name: str, factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigError(
            f"world {name!r} needs more than is installed: {error}. For MuJoCo: pip install 'edl[mujoco]'."
        ) from error
    except Exception as error:
        raise ConfigError(
            f"world {name!r} cannot be made ({type(error).__name__}: {error}): a Gymnasium id, or module:name of what "
            "makes an environment, is wanted. Check the name."
        ) from error


def _sizes(name: str, env: gymnasium.Env) -> tuple[int, np.ndarray, np.ndarray, int]:
    """Size of observations, bounds of actions, and the number of actions if they are discrete."""
    seen, acts = env.observation_space, env.action_space
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        image = isinstance(seen, spaces.Box) and len(seen.shape) > 1 and seen.dtype == np.uint8
        remedy = (
            "Images need features first: a gymnasium.wrappers.TransformObservation that gives a vector of numbers"
            if image
            else "Wrap it: gymnasium.wrappers.FlattenObservation(env)"
        )
        raise ConfigError(
            f"world {name!r} observes {seen}: a Box of one axis is wanted. {remedy}, in a function that makes the "
            "environment, and give that: --env module:function."
        )
    if isinstance(acts, spaces.Discrete):
        return seen.shape[0], np.zeros(0), np.zeros(0), int(acts.n)
    if not isinstance(acts, spaces.Box) or not np.issubdtype(acts.dtype, np.floating):
        raise ConfigError(
            f"world {name!r} takes actions {acts}: a Box of floats or Discrete is wanted. "
            "Wrap it in a gymnasium.ActionWrapper."
        )
    if not np.isfinite([acts.low, acts.high]).all():
        raise ConfigError(
            f"world {name!r} takes actions without bounds, {acts}: finite ones are wanted. "
            "Wrap it: gymnasium.wrappers.RescaleAction, or an ActionWrapper with a Box of finite bounds."
        )
    return seen.shape[0], acts.low.reshape(-1), acts.high.reshape(-1), 0


def _workers_that_pay(env: gymnasium.Env) -> int:
    """As many workers as cores, if steps are slow enough."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores < 2 or os.name != "posix":
        return 0
    try:
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(TRIAL)]
        began = time.process_time()
        for action in actions:
            if any(env.step(action)[2:4]):
                env.reset()
    except Exception:  # it will be told when the run meets it, with the step at which it happens
        return 0
    return min(cores, MOST_WORKERS) if (time.process_time() - began) / TRIAL > WORTH_A_WORKER else 0

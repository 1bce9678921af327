"""Any Gymnasium env as an `Env`: by id, by ``module:name``, or by a factory.

    edl run --env MountainCarContinuous-v0 --features "0,1"
    edl.run(lambda: MyEnv(size=3), features=(0, 1))

Observations must be a Box with one axis, and actions a Box with finite bounds or Discrete. Other spaces raise an error
that names the wrapper to use. Batches are stepped in this process, or in one worker process per core if a step is slow
enough. The results are the same.
"""

import os
import time
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from edl.config import ConfigError
from edl.envs.features import Features, count_features, parse_features
from edl.envs.host import DEFAULT_HORIZON, HostEnv
from edl.interop import registration  # noqa: F401  registers our own ids
from edl.interop.env_worker import Factory
from edl.interop.gymnasium_host import GymnasiumHost
from edl.runtime.devices import available_cores

SLOW_STEP = 5e-5
"""Seconds per step above which worker processes are faster than this process."""
MAX_WORKERS = 8
TRIAL_STEPS = 100
"""Number of steps over which the time per step is measured."""


def make(env_id: str, *, render_mode: str | None = None, **arguments: Any) -> gymnasium.Env:
    """`gymnasium.make` without its checker, which reports what we check ourselves."""
    rendering = {} if render_mode is None else {"render_mode": render_mode}
    return gymnasium.make(env_id, disable_env_checker=True, **rendering, **arguments)


def host_env(
    name: str,
    factory: Factory,
    first: Any,
    features: str | Features | None = None,
    horizon: int = 0,
    workers: int = -1,
) -> HostEnv:
    """The Gymnasium envs that ``factory`` makes, as one `HostEnv`; ``first`` is one of them.

    ``horizon=0`` means the env's own, up to `DEFAULT_HORIZON`; ``workers=-1`` chooses the number of worker processes.
    """
    if not isinstance(first, gymnasium.Env):
        raise ConfigError(
            f"env {name!r} must be an edl.envs.Env, a Brax-style env or a gymnasium.Env "
            f"(got a {type(first).__name__}). Return one of these from its factory."
        )
    size, low, high, num_actions = _sizes(name, first)
    limit = 0 if first.spec is None else first.spec.max_episode_steps or 0
    if limit and horizon > limit:
        raise ConfigError(
            f"horizon must be at most {limit} in env {name!r}, which truncates there (got {horizon}). Change --horizon."
        )
    horizon = horizon or min(limit or DEFAULT_HORIZON, DEFAULT_HORIZON)
    chosen = parse_features(features, size)
    return HostEnv(
        low=jnp.asarray(low, jnp.float32),
        high=jnp.asarray(high, jnp.float32),
        host=GymnasiumHost(name, factory, first, horizon, choose_workers(first) if workers < 0 else workers),
        chosen_features=chosen,
        horizon=horizon,
        observation_size=size,
        feature_size=count_features(chosen, size),
        num_actions=num_actions,
    )


def _sizes(name: str, env: gymnasium.Env) -> tuple[int, np.ndarray, np.ndarray, int]:
    """The size of observations, the bounds of actions, and the number of actions (0 if they are continuous)."""
    seen, acts = env.observation_space, env.action_space
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        image = isinstance(seen, spaces.Box) and len(seen.shape) > 1 and seen.dtype == np.uint8
        wrapper = (
            "gymnasium.wrappers.TransformObservation, with a function from an image to a vector"
            if image
            else "gymnasium.wrappers.FlattenObservation"
        )
        raise ConfigError(
            f"observations of env {name!r} must be a Box with one axis (got {seen}). Write a function that wraps the "
            f"env in {wrapper}, and pass it: --env module:function."
        )
    if isinstance(acts, spaces.Discrete):
        return seen.shape[0], np.zeros(0), np.zeros(0), int(acts.n)
    if not isinstance(acts, spaces.Box) or not np.issubdtype(acts.dtype, np.floating):
        raise ConfigError(
            f"actions of env {name!r} must be a Box of floats or Discrete (got {acts}). "
            "Wrap the env in a gymnasium.ActionWrapper."
        )
    if not np.isfinite([acts.low, acts.high]).all():
        raise ConfigError(
            f"actions of env {name!r} must have finite bounds (got {acts}). "
            "Wrap the env in gymnasium.wrappers.RescaleAction, or in an ActionWrapper with a bounded Box."
        )
    return seen.shape[0], acts.low.reshape(-1), acts.high.reshape(-1), 0


def choose_workers(env: gymnasium.Env) -> int:
    """One worker process per core if steps are slow enough, else 0."""
    cores = len(available_cores())
    if cores < 2 or os.name != "posix":
        return 0
    try:
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(TRIAL_STEPS)]
        began = time.process_time()
        for action in actions:
            if any(env.step(action)[2:4]):
                env.reset()
    except Exception:  # the run will meet the same error, and report it with its step
        return 0
    return min(cores, MAX_WORKERS) if (time.process_time() - began) / TRIAL_STEPS > SLOW_STEP else 0

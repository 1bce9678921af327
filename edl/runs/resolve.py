"""From the user's settings to a run that can start: `resolve_config`, and the `Context` in which its stages run."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from edl.config import ConfigError, check_numbers
from edl.envs import Env, Layout
from edl.explore.dataset import load_dataset
from edl.explore.region import CALLABLE, check_not_empty, parse_region
from edl.interop.env_names import is_maze, layout_for, make_env, runs_on_host, text_to_keep
from edl.interop.minari_data import is_minari_id, load_minari
from edl.runs.config import DATASET, RunConfig
from edl.runs.presets import complete

REGION_PROBES = 20_000
"""Uniform states that are drawn to find out whether a region is empty."""
MAX_SEED = 2**31


class Context(NamedTuple):
    """The env of a run, its maze if it is one, and the states of a dataset if the run explores one."""

    env: Env
    layout: Layout | None
    samples: Float[np.ndarray, "n s"] | None = None


def resolve_config(config: RunConfig) -> RunConfig:
    """A complete and checked config: known names, valid numbers, a parsed region, and the text of a maze or model."""
    check_numbers(config)
    if config.seed + config.num_seeds > MAX_SEED:
        raise ConfigError(f"seeds must be below {MAX_SEED} (got seed={config.seed}). Change --seed.")
    for name in ("region", "features"):
        value = getattr(config, name)
        if isinstance(value, str) and value.startswith(CALLABLE):
            raise ConfigError(f"the {name} of this run was the Python {value}: continue the run from Python.")
    config = dataclasses.replace(config, maze=text_to_keep(config.env, config.maze))
    context = make_context(config)
    env = context.env
    if config.explore == "go_explore" and runs_on_host(env):
        raise ConfigError(f"go_explore restores states of the env, which {config.env!r} cannot. Use another explorer.")
    if not is_maze(config.env):
        config = dataclasses.replace(config, features=_features_text(config, env), horizon=env.horizon)
    if isinstance(config.region, str):
        config = dataclasses.replace(config, region=parse_region(config.region, env.feature_size))
    config = complete(config)
    check_numbers(config)
    return config


def _features_text(config: RunConfig, env: Env) -> object:
    """The chosen dimensions in writing, so that config.json says what the skills are about."""
    about = getattr(env, "chosen_features", None)
    return ",".join(map(str, about)) if isinstance(about, tuple) else config.features


def make_context(config: RunConfig) -> Context:
    env = make_env(config.env, features=config.features, horizon=config.horizon, maze=config.maze)
    return Context(env, layout_for(config.env, config.maze))


def with_dataset(config: RunConfig, context: Context) -> Context:
    """Read the dataset, if the run explores one, and reject a region without states."""
    if config.method == "edl" and config.explore.startswith(DATASET):
        name, size = config.explore.removeprefix(DATASET), context.env.feature_size
        read = load_minari if is_minari_id(name) else load_dataset
        return context._replace(samples=read(name, size, config.region))
    sample_states = getattr(context.env, "sample_states", None)
    if config.region is not None and sample_states is not None:
        probes = np.asarray(jax.jit(lambda key: sample_states(key, REGION_PROBES))(jax.random.key(0)))
        check_not_empty(config.region, probes, f"{REGION_PROBES} states drawn uniformly from the env")
    return context

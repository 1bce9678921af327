"""From the user's settings to a run that can start: `resolve_config`, and the `Context` in which its stages run."""

import dataclasses
import hashlib
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from edl import baselines
from edl.artifacts import SkillModel, States
from edl.config import ConfigError, RunWarning, check, check_numbers
from edl.envs import Env, Layout
from edl.explore.dataset import as_states, load_dataset, load_experience
from edl.explore.region import CALLABLE, Predicate, check_not_empty, inside, parse_region
from edl.interop.env_names import is_maze, layout_for, make_env, runs_on_host, text_to_keep
from edl.interop.minari_data import is_minari_id, load_minari, load_minari_experience
from edl.runs.config import DATASET, GIVEN, RunConfig
from edl.runs.limits import check_sizes, check_skills
from edl.runs.presets import complete

REGION_PROBES = 20_000
"""Uniform states that are drawn to find out whether a region is empty."""
MAX_SEED = 2**31
FEW_OUTSIDE, MANY_OUTSIDE = 0.01, 0.5
"""Shares of a dataset that may lie outside of the maze without a word, and with a warning."""


class Context(NamedTuple):
    """The env of a run, its maze if it is one, and what takes the place of a stage.

    ``samples`` are the states of a dataset, or those that a user gave, as `States` if they come with experience, which
    an offline baseline needs. ``skills`` are those that a user gave.
    """

    env: Env
    layout: Layout | None
    samples: Float[np.ndarray, "n s"] | States | None = None
    skills: SkillModel | None = None


def is_offline(config: RunConfig) -> bool:
    """Whether the run's method learns from recorded states and actions."""
    method = baselines.METHODS.get(config.method)
    return method is not None and method.offline


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
    check_sizes(config)
    check_skills(config)
    return config


def _features_text(config: RunConfig, env: Env) -> object:
    """The chosen dimensions in writing, so that config.json says what the skills are about."""
    about = getattr(env, "chosen_features", None)
    return ",".join(map(str, about)) if isinstance(about, tuple) else config.features


def make_context(config: RunConfig) -> Context:
    env = make_env(
        config.env, features=config.features, horizon=config.horizon, maze=config.maze, timed=bool(config.timed)
    )
    return Context(env, layout_for(config.env, config.maze))


def with_dataset(config: RunConfig, context: Context) -> Context:
    """Read the dataset, if the run explores one, and reject a region without states."""
    if context.samples is not None:
        return context
    if config.explore.startswith((DATASET + GIVEN, GIVEN)) or config.discover.startswith(GIVEN):
        raise ConfigError("the states or skills of this run were Python arrays: continue the run from Python.")
    if config.explore.startswith(DATASET) and is_offline(config):
        name = config.explore.removeprefix(DATASET)
        read = load_minari_experience if is_minari_id(name) else load_experience
        states = read(name, context.env)
        samples = np.asarray(states.samples)
        check_in_maze(samples, context.layout, name)
        samples = _in_region(config.region, samples, f"the {len(samples)} states of {name!r}")
        return context._replace(samples=States(jnp.asarray(samples), states.experience))
    if config.method == "edl" and config.explore.startswith(DATASET):
        name, size = config.explore.removeprefix(DATASET), context.env.feature_size
        read = load_minari if is_minari_id(name) else load_dataset
        samples = read(name, size, config.region)
        check_in_maze(samples, context.layout, name)
        return context._replace(samples=samples)
    sample_states = getattr(context.env, "sample_states", None)
    if config.region is not None and sample_states is not None:
        probes = np.asarray(jax.jit(lambda key: sample_states(key, REGION_PROBES))(jax.random.key(0)))
        check_not_empty(config.region, probes, f"{REGION_PROBES} states drawn uniformly from the env")
    return context


def _in_region(region: Predicate | None, samples: Float[np.ndarray, "n s"], what: str) -> Float[np.ndarray, "m s"]:
    """The samples of p(s) in the region. A region without any is rejected; ``what`` says where they come from."""
    if region is None:
        return samples
    check_not_empty(region, samples, what)
    return samples[inside(region, samples)]


def check_in_maze(samples: Float[np.ndarray, "n s"], layout: Layout | None, source: str) -> None:
    """Reject states of which most lie outside of the maze, and warn if some do: skills would aim at them."""
    if layout is None or samples.shape[-1] != 2:
        return
    outside = float(np.mean(~layout.contains(np.asarray(samples, float))))
    if outside <= FEW_OUTSIDE:
        return
    (left, low), (right, high) = layout.bounds
    ends = [(f"{axis.min():.3g}", f"{axis.max():.3g}") for axis in np.asarray(samples, float).T]
    message = (
        f"{100 * outside:.0f} % of the states of {source} lie outside of the maze {layout.name!r}: they have x from "
        f"{' to '.join(ends[0])} and y from {' to '.join(ends[1])}, and the maze has x from {left:g} to {right:g} "
        f"and y from {low:g} to {high:g}. Check the unit and the order of the columns."
    )
    check(outside < MANY_OUTSIDE, message)
    warnings.warn(message, RunWarning, stacklevel=2)


class Given(NamedTuple):
    """What a user gives instead of a stage: states (an array or `States`), skills, or both."""

    states: Any = None
    skills: SkillModel | None = None


def with_given(config: RunConfig, given: Given) -> tuple[RunConfig, dict[str, Any]]:
    """The config and the fields of `Context` of a run whose states or skills a user gives.

    The config names them by a hash of their contents, so that a folder with other states or skills is not continued by
    mistake. Skills without states are their own p(s): their goals.
    """
    states, skills = given
    experience = states.experience if isinstance(states, States) else None
    source = states.samples if isinstance(states, States) else states
    if source is None and skills is not None:
        source = skills.goals
    if source is None:
        return config, {}
    check(config.method == "edl", f"states and skills belong to method='edl' (got method={config.method!r}).")
    check(not config.explore, f"states replace the explorer: leave out explore (got {config.explore!r}).")
    context, region = make_context(config), config.region
    size = context.env.feature_size
    if skills is not None:
        shape = skills.goals.shape
        right = len(shape) == 2 and shape[1] == size
        check(right, f"the goals of skills must have shape (k, {size}) in this env (got {shape}).")
    samples = as_states(np.asarray(source), "states", size)
    check_in_maze(samples, context.layout, "this run")
    region = parse_region(region, size) if isinstance(region, str) else region
    samples = _in_region(region, samples, f"the {len(samples)} states given")
    prefix = DATASET + GIVEN if experience is None else GIVEN
    config = dataclasses.replace(config, explore=f"{prefix}{_hash_of((samples, experience))}")
    if skills is not None:
        check(not config.discover, f"skills replace the discoverer: leave out discover (got {config.discover!r}).")
        check(not skills.continuous, "skills must have a discrete prior to be given to a run (got a continuous one).")
        named = f"{GIVEN}{_hash_of(skills)}"
        config = dataclasses.replace(config, discover=named, num_skills=skills.num_skills)
    kept = samples if experience is None else States(jnp.asarray(samples), experience)
    return config, {"samples": kept, "skills": skills}


def _hash_of(tree: PyTree) -> str:
    """A hash of the arrays of a tree."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:12]

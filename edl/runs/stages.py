"""The stages of a run as work for the driver, and the world they take place in. Nothing runs here.

    explore -> discover -> (scout) -> measure -> place -> learn

`scout` is a short exploration for runs whose states came without experience, from an oracle or a file, when the learner
needs some to measure distance by. `measure` turns experience into that distance, once, and `place` moves the goals of
skills that discovery, which knew no walls, put behind one.
"""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from edl import baselines, discover, explore, learn
from edl.artifacts import Experience, SkillModel, States
from edl.config import ConfigError
from edl.runtime.effort import Effort, quick_jit
from edl.envs import WORLDS, Env, Layout, layout_of, layouts
from edl.envs.maze import maze
from edl.runs.driver import Work, outline
from edl.runs.presets import DEFAULTS, HOST_DEFAULTS, complete
from edl.runs.config import DATASET, RunConfig, check_numbers
from edl.explore.dataset import dataset, load_dataset
from edl.explore.region import CALLABLE, check_not_empty, inside, parse_region
from edl.interop.minari_data import is_minari_id, load_minari
from edl.interop.env_names import host_world, is_host_id
from edl.learn import LearnConfig, measure, place
from edl.learn.distance import Distance, Euclidean
from edl.program import Program, instant
from edl.types import Key, Keys

STAGES = ("explore", "discover", "scout", "measure", "learn", "evaluate", "place")
"""The place of a stage is part of its keys: a new one goes to the end."""
PROBES = 20_000
"""Uniform states by which a region is found to be empty before anything runs."""


class World(NamedTuple):
    """Where a run takes place. ``samples`` are those of a dataset, if that is what it explores."""

    env: Env
    layout: Layout | None
    samples: Float[np.ndarray, "n s"] | None = None


def settle(config: RunConfig) -> RunConfig:
    """A complete and checked config: names known, numbers in range, the region parsed, the maze's text kept."""
    check_numbers(config, "")
    if config.seed + config.num_seeds > 2**31:
        raise ConfigError(f"seed={config.seed}: seeds below {2**31} are wanted. Change --seed.")
    if is_host_id(config.env):
        config = host_settled(config)
    elif config.features is not None or config.horizon:
        raise ConfigError(
            f"features and horizon are for Gymnasium worlds, and {config.env!r} is a maze: leave them out."
        )
    elif config.env not in WORLDS and config.maze is None:
        config = dataclasses.replace(config, maze=layout_of(config.env).text)
    if isinstance(config.region, str):
        if config.region.startswith(CALLABLE):
            raise ConfigError(f"the region of this run was the Python {config.region}: continue it from Python.")
        region = parse_region(config.region, make_world(config).env.feature_size)
        config = dataclasses.replace(config, region=region)
    config = complete(config)
    check_numbers(config, "")
    return config


def host_settled(config: RunConfig) -> RunConfig:
    """The settings of a Gymnasium world: what it leaves open is written down, so that the run explains itself."""
    if isinstance(config.features, str) and config.features.startswith(CALLABLE):
        raise ConfigError(f"the features of this run were the Python {config.features}: continue it from Python.")
    if config.explore == "go_explore":
        raise ConfigError(f"explore=go_explore restores states, which {config.env!r} cannot: use another explorer.")
    env = make_world(config).env
    about = getattr(env, "about", None)  # a world of ours, given as a factory, has no choice of features
    features = ",".join(map(str, about)) if isinstance(about, tuple) else config.features
    return dataclasses.replace(config, features=features, horizon=env.horizon)


def make_world(config: RunConfig) -> World:
    """The world of a run; its maze may be known by its text alone."""
    if is_host_id(config.env):
        return World(host_world(config.env, config.features, config.horizon), None)
    layout = layout_of(config.env) if config.maze is None else layouts.parse(config.maze, Path(config.env).stem)
    return World(maze(layout), layout)


def with_data(config: RunConfig, world: World) -> World:
    """Read the dataset, if the run has one, and refuse a region that holds nothing."""
    if config.method == "edl" and config.explore.startswith(DATASET):
        name, size = config.explore.removeprefix(DATASET), world.env.feature_size
        read = load_minari if is_minari_id(name) else load_dataset
        return world._replace(samples=read(name, size, config.region))
    sample_states = getattr(world.env, "sample_states", None)
    if config.region is not None and sample_states is not None:
        probes = np.asarray(jax.jit(lambda key: sample_states(key, PROBES))(jax.random.key(0)))
        check_not_empty(config.region, probes, f"{PROBES} states drawn all over the world")
    return world


def keys(config: RunConfig, stage: str) -> Keys:
    """One key per seed. It depends on the seed and the stage alone, so that a seed is the same in any company."""
    number = STAGES.index(stage)
    seeds = np.arange(config.seed, config.seed + config.num_seeds, dtype=np.uint32)
    return quick_jit(_keys)(seeds, np.uint32(number))


def _keys(seeds: UInt32[Array, " n"], number: UInt32[Array, ""]) -> Keys:
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), number))(seeds)


def explore_work(config: RunConfig, world: World) -> Work:
    """Stage 1."""
    if world.samples is not None:
        return Work(dataset, (world.samples,), (False,))
    build = explore.METHODS[config.explore].build
    return Work(build, (world.env, config.explorer), (False, False), effort=Effort.LESS)


def discover_work(config: RunConfig, states: States) -> Work:
    """Stage 2, which sees the samples of p(s) alone."""
    num_samples = states.samples.shape[1]
    if config.num_skills > num_samples:
        raise ConfigError(
            f"num_skills={config.num_skills} exceeds the {num_samples} states explored: "
            "explore longer or ask for fewer skills."
        )
    alone = eqx.tree_at(lambda states: states.experience, states, None, is_leaf=lambda leaf: leaf is None)
    build = discover.METHODS[config.discover].build
    return Work(build, (alone, config.discoverer), (True, False), effort=Effort.LESS)


def scout_work(config: RunConfig, world: World) -> Work:
    """Experience for a learner that needs some and got none."""
    name = (HOST_DEFAULTS if is_host_id(config.env) else DEFAULTS[config.preset])["scout"]
    return Work(explore.METHODS[name].build, (world.env, config.scout), (False, False), effort=Effort.LESS)


def measure_work(config: RunConfig, experience: Experience | None) -> Work:
    """The distance that the learner's reward is made of."""
    return Work(_measuring, (experience, config.learner), (True, False))


def _measuring(experience: Experience | None, config: LearnConfig) -> Program:
    def make(key: Key) -> Any:
        return measure(key, experience, config)

    return instant(make)


def places_goals(config: RunConfig, skills: PyTree) -> bool:
    """Whether goals may move before they are learned: where distance is walked, and there is a goal for each skill."""
    return config.learner.distance == "walking" and config.learner.place_goals and not skills.continuous


def place_work(skills: PyTree, states: States, distance: PyTree) -> Work:
    """The same skills, whose goals may have moved."""
    return Work(_placing, (skills, states.samples, distance), (True, True, True))


def _placing(skills: SkillModel, samples: Float[Array, "n s"], distance: Distance) -> Program:
    return instant(lambda key: place(skills, samples, distance))


def learn_work(config: RunConfig, world: World, skills: PyTree, distance: PyTree) -> Work:
    """Stage 3."""
    inputs, per_seed = (world.env, skills, distance, config.learner), (False, True, True, False)
    return Work(learn.learn, inputs, per_seed)


def baseline_work(config: RunConfig, world: World) -> Work:
    """A method without stages."""
    build = baselines.METHODS[config.method].build
    return Work(build, (world.env, config.baseline), (False, False))


def policy_skeleton(config: RunConfig, world: World, skills: PyTree) -> PyTree:
    """The shapes of the policy, which do not depend on the distance that its reward was made of."""
    work = baseline_work(config, world) if config.method != "edl" else learn_work(config, world, skills, Euclidean())
    return outline(work, config.num_seeds).artifact


def rehearse(config: RunConfig, world: World) -> list[Work]:
    """All stages, traced but not run, so that what they refuse is refused before anything is written.

    The inputs of all but the first are mere shapes, which is enough to compile them.
    """
    works: list[Work] = []

    def shape_of(work: Work) -> PyTree:
        works.append(work)
        return outline(work, config.num_seeds).artifact

    if config.method != "edl":
        shape_of(baseline_work(config, world))
        return works
    states = shape_of(explore_work(config, world))
    skills = shape_of(discover_work(config, states))
    distance: PyTree = Euclidean()
    if config.learner.distance == "walking":
        scouted = states if config.scout is None else shape_of(scout_work(config, world))
        distance = shape_of(measure_work(config, scouted.experience))
    if places_goals(config, skills):
        skills = shape_of(place_work(skills, states, distance))
    shape_of(learn_work(config, world, skills, distance))
    return works


def check_explored(config: RunConfig, states: States) -> None:
    """Refuse states outside the region, which is what an explorer gives that never came into it."""
    if config.region is None:
        return
    for seed, samples in enumerate(np.asarray(states.samples), config.seed):
        if not inside(config.region, samples).all():
            raise ConfigError(
                f"seed {seed} of explore={config.explore} never came into the region {config.region!s}: "
                "explore longer, or widen the region."
            )

"""Every method of every registry, and stage 3, each with a config that is as small as possible."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from edl import baselines, discover, explore
from edl.artifacts import Experience, SkillModel, States
from edl.envs.clock import timed_env
from edl.envs.maze import maze
from edl.learn import LearnConfig, learn
from edl.learn.distance import EuclideanDistance
from edl.nets.normalise import identity_normaliser
from edl.program import Program

SLOW_METHODS = (
    *("metra_ppo", "lsd", "csd", "apt", "cic", "aps"),
    *("becl", "disco_dance", "rsd", "fb", "map_elites"),
)
"""Methods without stages whose laws are slow tests, because they have the learner of another method."""
HORIZON = 6
ENV = maze("square", horizon=HORIZON)
EXPERIENCE = Experience(
    paths=jax.random.uniform(jax.random.key(8), (5, HORIZON + 1, 2), minval=-3.0, maxval=2.0),
    actions=jax.random.uniform(jax.random.key(9), (5, HORIZON, 2), minval=-0.9, maxval=0.9),
    lengths=jnp.array([6, 3, 6, 1, 6]),
)
STATES = States(samples=jax.random.uniform(jax.random.key(7), (200, 2), minval=-3.0, maxval=2.0))
GOALS = jnp.array([[-1.0, 0.0], [1.0, 0.5], [0.0, 1.0]])
SKILLS = SkillModel(GOALS, GOALS, GOALS, jnp.full(3, 1 / 3), None, None, identity_normaliser(2))

SMALL: dict[str, Any] = {
    "iterations": 2,
    "rollouts": 4,
    "rounds": 2,
    "epochs": 1,
    "minibatches": 2,
    "hidden": (8,),
    "hidden_size": 8,
    "hidden_layers": 1,
    "embedding": 4,
    "code_size": 4,
    "batch_size": 16,
    "update_every": 6,
    "capacity": 200,
    "warmup": 16,
    "objective_batch_size": 32,
    "alternatives": 4,
    "fitted_to": 32,
    "particles": 16,
    "neighbours": 2,
    "landmarks": 80,
    "candidates": 8,
    "sources": 2,
    "cells": 64,
    "places": 64,
    "round_iterations": 2,
    "num_samples": 50,
    "first_episodes": 4,
    "attempts": 16,
    "num_skills": 3,
    "restarts": 2,
    "lloyd_steps": 4,
    "gradient_steps": 4,
    "steps_per_iteration": 2,
    "distance": "euclidean",
}
"""Small values by name of the config field."""


class Case(NamedTuple):
    """``build(*inputs, config)`` is the program of a method."""

    stage: str
    name: str
    build: Callable[..., Program]
    inputs: tuple
    config: Any

    def __str__(self) -> str:
        return f"{self.stage}-{self.name}"


def shrink(config: Any) -> Any:
    """Replace the fields of the config, and of configs nested in it, by the values of `SMALL`."""
    changes = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            changes[field.name] = shrink(value)
        elif field.name in SMALL and value != 0:  # 0: the method does not use it
            changes[field.name] = SMALL[field.name]
    return dataclasses.replace(config, **changes)


REGISTRIES = {"explore": (explore, (ENV,)), "discover": (discover, (STATES,)), "baselines": (baselines, (ENV,))}
RECORDED = States(STATES.samples, EXPERIENCE)
TIMED = timed_env(ENV)


def inputs_of(name: str, offline: bool, inputs: tuple) -> tuple:
    """The inputs of a method; hindsight needs an env that shows the time left."""
    return (TIMED,) if name == "hindsight" else (ENV, RECORDED) if offline else inputs


CASES = [
    Case(stage, name, method.build, inputs_of(name, method.offline, inputs), shrink(method.config()))
    for stage, (folder, inputs) in REGISTRIES.items()
    for name, method in folder.METHODS.items()
]
CASES.append(Case("learn", "edl", learn, (ENV, SKILLS, EuclideanDistance()), shrink(LearnConfig())))


def quick_first(methods: Iterable[str]) -> list:
    """Names of methods as test parameters; those in `SLOW_METHODS` are slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_METHODS else name for name in methods]

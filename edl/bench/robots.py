"""Robots on MJX: the env alone, training with the preset of `beyond` and with more envs, and Brax's PPO.

The env alone with as many envs as training has says how much of the training is physics, and how much is learning.
Brax's PPO has the model, envs, batches and networks of the preset.
"""

import concurrent.futures
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import jax

from edl.bench.ours import Compiled
from edl.bench.timing import Contestant, Row, Timed
from edl.envs.base import Env
from edl.envs.mjx.library import INSTALL
from edl.explore.beyond import BeyondConfig, beyond
from edl.explore.random_walk import random_action
from edl.interop import brax_peer
from edl.program import program_keys
from edl.runs.config import RunConfig
from edl.runs.resolve import make_context, resolve_config
from edl.types import Key

ROBOT = "ant"
NUM_ENVS, CPU_NUM_ENVS = (1024, 4096, 16384), (64,)
"""Numbers of envs of the env alone. That of training is added."""
MANY_ENVS, FEWER_MINIBATCHES = 16384, 16
"""Training for speed: the device is full, and the minibatches are as many as fill it."""
STEPS = 50
"""Env steps per call."""
ITERATIONS = 6
"""Iterations of training per call."""
ENV_ALONE, TRAINING, BRAX = "robot alone", "robot training", "Brax PPO"
NO_MJX = f"robots: mujoco and mujoco-mjx are not installed ({INSTALL})."
NO_BRAX = "Brax's PPO on the same robot: Brax is not installed (in a checkout, pip install '.[bench]')."

Maker = Callable[[], list[Contestant]]


def makers(quick: bool, notes: list[str], robot: str = ROBOT) -> list[Maker]:
    """Functions that create the contestants. Creating one compiles it, which takes up to a minute."""
    if importlib.util.find_spec("mujoco") is None or importlib.util.find_spec("mujoco.mjx") is None:
        notes.append(NO_MJX)
        return []
    config = resolve_config(RunConfig(env=robot, explore="beyond"))
    env, explorer = make_context(config).env, config.explorer
    ours: list[Callable[[], Contestant]] = [
        functools.partial(env_alone, env, count) for count in counts_of(explorer, quick)
    ]
    ours.append(functools.partial(training, env, explorer, 2 if quick else ITERATIONS))
    if not quick and jax.default_backend() != "cpu":
        many = dataclasses.replace(explorer, rollouts=MANY_ENVS, minibatches=FEWER_MINIBATCHES)
        ours.append(functools.partial(training, env, many, ITERATIONS // 2))
    found: list[Maker] = [lambda: compile_side_by_side(ours)]
    if importlib.util.find_spec("brax") is None:
        notes.append(NO_BRAX)
    else:
        found.append(lambda: [brax_ppo(env, explorer)])
    return found


def compile_side_by_side(makers: Sequence[Callable[[], Contestant]]) -> list[Contestant]:
    """Create contestants in threads, because XLA compiles a robot for most of a minute on one core."""
    with concurrent.futures.ThreadPoolExecutor(len(makers)) as pool:
        return list(pool.map(lambda make: make(), makers))


def counts_of(explorer: BeyondConfig, quick: bool) -> list[int]:
    """The numbers of envs that are measured alone."""
    usual = CPU_NUM_ENVS if jax.default_backend() == "cpu" else NUM_ENVS
    return [explorer.rollouts] if quick else sorted({*usual, explorer.rollouts})


def env_alone(env: Env, count: int) -> Contestant:
    """Steps of ``count`` envs with random actions, without learning."""

    def play(key: Key) -> Any:
        reset_key, step_key = jax.random.split(key)
        states = jax.vmap(env.reset)(jax.random.split(reset_key, count))

        def step(states: Any, key: Key) -> tuple[Any, None]:
            def one(key: Key, state: Any) -> Any:
                return env.step(key, state, random_action(key, env.action_space)).state

            return jax.vmap(one)(jax.random.split(key, count), states), None

        return jax.lax.scan(step, states, jax.random.split(step_key, STEPS))[0]

    go = Compiled(play, jax.random.key(0))
    return Contestant(name_of(ENV_ALONE, count), "env steps/s", count * STEPS, go, None, go.memory, go.seconds)


def name_of(what: str, count: int) -> str:
    return f"{what}, {count} envs"


def training(env: Env, config: BeyondConfig, iterations: int) -> Contestant:
    """Training steps of the explorer `beyond`: playing, learning, and keeping the visited set."""
    program = beyond(env, config)
    first, rest = program_keys(jax.random.key(0), iterations)
    state = jax.jit(program.init)(first)
    go = Compiled(lambda state, keys: jax.lax.scan(program.step, state, keys)[0], state, rest)
    steps, name = iterations * program.env_steps, name_of(TRAINING, config.rollouts)
    return Contestant(name, "env steps/s", steps, go, None, go.memory, go.seconds)


def brax_ppo(env: Env, config: BeyondConfig) -> Contestant:
    """Brax's PPO with the envs, unroll, epochs, minibatches and networks of our explorer, measured once.

    It compiles again whenever it is called, so all rounds have the time of its last third, which compiles nothing.
    """
    settings = brax_peer.Settings(config.rollouts, config.unroll, config.epochs, config.minibatches, config.hidden)
    found = brax_peer.train(env, settings, 3 * ITERATIONS)
    timed = Timed(found.seconds, found.seconds)
    name = f"{name_of(BRAX, config.rollouts)} (once)"
    return Contestant(name, "env steps/s", found.env_steps, lambda: timed, compile_seconds=found.compile_seconds)


def shares(rows: Sequence[Row]) -> list[str]:
    """How much of the time of training is physics."""
    rates = {row.name: row.rate for row in rows}
    found = []
    for name, rate in rates.items():
        alone = rates.get(name.replace(TRAINING, ENV_ALONE))
        if name.startswith(TRAINING) and alone is not None:
            physics = min(rate / alone, 1.0)
            found.append(f"{name}: {100 * physics:.0f} % physics, {100 * (1 - physics):.0f} % learning")
    return found

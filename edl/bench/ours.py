"""Our contestants: env steps, training at the paper's recipe, VQ-VAE and SAC updates, and the peak of the machine."""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from edl.artifacts import States
from edl.bench.timing import Contestant
from edl.discover.kmeans import KMeansConfig, kmeans
from edl.discover.vqvae import VQVAEConfig, vqvae
from edl.envs.maze import maze
from edl.explore.random_walk import random_episode
from edl.explore.smm import SMMConfig, smm
from edl.learn import learn, paper
from edl.learn.distance import EuclideanDistance
from edl.program import Program, program_keys, run_program
from edl.rl.ppo import paper_ppo
from edl.runs.driver import lane_mesh, over_lanes, pad_lanes, padded_size, place_on_devices

ENV = "bottleneck"
EPISODES = 4096
WIDTHS = (1, 8, 64, 256, 1024)
"""Numbers of runs in one program."""
CPU_WIDTHS = (1, 8)
MATMUL, LARGE_MATMUL = 2048, 8192
"""Sizes of matrices whose product reaches the peak speed of a CPU and of a GPU."""


def env_steps() -> Contestant:
    """Env steps with random actions, without learning."""
    env = maze(ENV)
    play = jax.jit(jax.vmap(lambda key: random_episode(key, env, 0.8).features))
    keys = jax.random.split(jax.random.key(0), EPISODES)
    return Contestant("env alone", "env steps/s", EPISODES * env.horizon, lambda: play(keys))


@functools.cache
def recipe(iterations: int, skills: int = 10, rollouts: int = 50, width: int = 128) -> Program:
    """Stage 3 at the paper's recipe: 2 x 50 rollouts of 50 steps, 4 epochs x 10 minibatches, two 2 x 128 networks."""
    env = maze(ENV)
    states = States(jax.jit(lambda key: env.sample_states(key, 4096))(jax.random.key(1)))
    found = jax.jit(lambda key: run_program(kmeans(states, KMeansConfig(num_skills=skills)), key)[0])(jax.random.key(2))
    # Random codes of the same length as those of the paper's VQ-VAE: only their length affects the speed.
    codes = jax.random.normal(jax.random.key(3), (skills, VQVAEConfig().code_size))
    ppo = paper_ppo(iterations=iterations, rollouts=rollouts, hidden=(width, width), gamma=1.0, bootstrap=False)
    return learn(env, dataclasses.replace(found, codes=codes), EuclideanDistance(), paper(ppo=ppo))


def training(runs: int, iterations: int, **changes: int) -> Contestant:
    """Training steps (playing and learning) of some runs in one program, on the devices that `edl run` would use.

    ``changes`` are arguments of `recipe`.
    """
    program, mesh = recipe(iterations, **changes), lane_mesh(runs)
    keys = pad_lanes(jax.random.split(jax.random.key(3), runs), mesh)

    def train(state: Any, keys: Any) -> Any:
        def one(_: tuple, state: Any, keys: Any) -> Any:
            return jax.lax.scan(program.step, state, keys)[0]

        return over_lanes(one, (), padded_size(runs, mesh), mesh, (), state, keys)

    first, rest = jax.vmap(lambda key: program_keys(key, iterations))(keys)
    state = place_on_devices(mesh, jax.jit(jax.vmap(program.init))(first))
    go = Compiled(train, state, place_on_devices(mesh, rest))
    steps = runs * iterations * program.env_steps
    words = [f"{runs} run{'s' if runs > 1 else ''}", *(f"{name} {value}" for name, value in changes.items())]
    name = f"training, {', '.join(words)}"
    return Contestant(name, "env steps/s", steps, go, flop_per_step(program) * steps, go.memory, go.seconds)


def flop_per_step(program: Program, epochs: int = 4) -> float:
    """Floating-point operations of the networks' matrix products per environment step, counted by hand.

    Playing costs a forward pass of the actor, and preparing the batch one of the critic. Each epoch costs a forward
    pass of both and a backward pass of twice that, less the gradient by the inputs. Nothing else is counted.
    """
    agent = jax.eval_shape(program.init, jax.random.key(0)).inner.agent
    sizes = [[2 * weight.shape[0] * weight.shape[1] for weight in net.params.weights] for net in agent]
    once, inputs = sum(map(sum, sizes)), sum(each[0] for each in sizes)
    return float(once + epochs * (3 * once - inputs))


def updates() -> Iterator[Contestant]:
    """Gradient steps of the VQ-VAE and of SMM (a SAC update, a VAE update and a classifier update)."""
    env = maze(ENV)
    states = States(env.sample_states(jax.random.key(1), 4096))
    config = VQVAEConfig()
    yield _program("VQ-VAE", vqvae(states, config), 4, config.steps_per_iteration)
    yield _program("SMM (SAC + VAE)", smm(env, SMMConfig(iterations=8)), 8, env.horizon)


def _program(name: str, program: Program, iterations: int, per_iteration: int) -> Contestant:
    first, rest = program_keys(jax.random.key(0), program.iterations)
    state = jax.jit(program.init)(first)
    go = Compiled(lambda state, keys: jax.lax.scan(program.step, state, keys)[0], state, rest[:iterations])
    return Contestant(name, "updates/s", iterations * per_iteration, go, None, go.memory, go.seconds)


def peak(times: int = 4) -> Contestant:
    """Products of large square matrices at JAX's default precision: the peak speed of this device."""
    size = MATMUL if jax.default_backend() == "cpu" else LARGE_MATMUL
    a = jnp.asarray(np.random.default_rng(0).normal(size=(size, size)), jnp.float32)
    product = jax.jit(lambda a: jax.lax.fori_loop(0, times, lambda _, x: x @ a / size, a))
    flop = 2.0 * size**3 * times
    return Contestant(f"matmul {size}", "FLOP/s", flop, lambda: product(a), flop)


class Compiled:
    """A function compiled for fixed inputs, with its compile time and the memory that a call needs."""

    def __init__(self, function: Callable, *inputs: Any):
        began = time.perf_counter()
        self.function, self.inputs = jax.jit(function).lower(*inputs).compile(), inputs
        self.seconds = time.perf_counter() - began
        analysis = self.function.memory_analysis()
        sizes = ("temp_size_in_bytes", "argument_size_in_bytes", "output_size_in_bytes")
        self.memory = None if analysis is None else int(sum(getattr(analysis, size) for size in sizes))

    def __call__(self) -> Any:
        return self.function(*self.inputs)

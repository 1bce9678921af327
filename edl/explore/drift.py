"""Ours, for envs without prior knowledge: random actions that persist, for a different time scale in each episode.

How long an action must last to get anywhere depends on the env: a car must be pushed back and forth at the frequency of
its valley, and a pole falls within a dozen steps. Each episode therefore draws its own persistence, log-uniformly over
all time scales from one step to the whole episode. p(s) is flattened afterwards: states are drawn with weights
1 / visits of their cell, where the side of a cell is a fraction of the standard deviation of the visited states. There
is nothing to train, so all the time goes into env steps.
"""

import jax
import jax.numpy as jnp

from edl.artifacts import States, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.collect import draw_states, flat_weights, record, visited_states
from edl.explore.random_walk import RandomWalkState, random_episode
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics, Scalar


@config
class DriftConfig:
    """Settings of drift: 250,000 steps by default in an env with 200 steps per episode."""

    iterations: int = 20
    """Number of iterations."""
    rollouts: int = 64
    """Episodes per iteration."""
    cell: float = 0.1
    """Side of the cells in which visits are counted, in standard deviations of the visited states."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


def drift(env: Env, config: DriftConfig) -> Program[RandomWalkState, States]:
    """Act at random on all time scales; p(s) is nearly uniform over the cells that were reached."""

    def init(key: Key) -> RandomWalkState:
        return RandomWalkState(key, empty_experience(env, config.iterations * config.rollouts), jnp.int32(0))

    def play(key: Key) -> Episode:
        scale_key, play_key = jax.random.split(key)
        return random_episode(play_key, env, random_persistence(scale_key, env.horizon))

    def step(state: RandomWalkState, key: Key) -> tuple[RandomWalkState, Metrics]:
        episodes = jax.vmap(play)(jax.random.split(key, config.rollouts))
        experience = record(state.experience, episodes, state.episodes)
        lengths = jnp.mean(jnp.sum(episodes.valid, axis=1))
        return RandomWalkState(state.key, experience, state.episodes + config.rollouts), {"length": lengths}

    def finish(state: RandomWalkState) -> States:
        states, real = visited_states(state.experience)
        mean = jnp.average(states, axis=0, weights=real)
        deviation = jnp.sqrt(jnp.average((states - mean) ** 2, axis=0, weights=real))
        scaled = (states - mean) / jnp.where(deviation > 1e-6, deviation, 1.0)
        weights = flat_weights(scaled, real, config.cell)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def random_persistence(key: Key, horizon: int) -> Scalar:
    """1 - 1/T for a time scale T drawn log-uniformly from one step to the whole episode."""
    return 1 - jnp.exp(-jax.random.uniform(key) * jnp.log(float(horizon)))

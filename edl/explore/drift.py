"""Ours, for worlds of which nothing is known: random actions that last, for another while in each episode.

How long an action has to last to get anywhere depends on the world: a car has to be pushed to and fro as its valley
swings, a pole falls within a dozen steps. So each episode draws its own persistence, all time scales from one step to
the whole episode alike, and p(s) is flattened afterwards: states are drawn with weights 1 / visits, by cells whose side
is a share of the standard deviation of what was visited. There is nothing to train: all time goes into the world.
"""

import jax
import jax.numpy as jnp

from edl.artifacts import States, blank_experience
from edl.config import config
from edl.envs.base import Env
from edl.explore.collect import draw_states, record, visited
from edl.explore.frontier import TABLE, cell_of
from edl.explore.random_walk import RandomWalkState, wander
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics, Scalar


@config
class DriftConfig:
    """A quarter of a million steps in a world of 200."""

    iterations: int = 20
    rollouts: int = 64
    cell: float = 0.1
    """Side of the cells in which visits are counted, in standard deviations."""
    num_samples: int = 8192
    region: Predicate | None = None


def drift(env: Env, config: DriftConfig) -> Program[RandomWalkState, States]:
    """Play at random on all time scales; p(s) is as even as that allows."""

    def init(key: Key) -> RandomWalkState:
        return RandomWalkState(key, blank_experience(env, config.iterations * config.rollouts), jnp.int32(0))

    def play(key: Key):
        scale_key, play_key = jax.random.split(key)
        return wander(play_key, env, any_persistence(scale_key, env.horizon))

    def step(state: RandomWalkState, key: Key) -> tuple[RandomWalkState, Metrics]:
        episodes = jax.vmap(play)(jax.random.split(key, config.rollouts))
        experience = record(state.experience, episodes, state.episodes)
        lengths = jnp.mean(jnp.sum(episodes.valid, axis=1))
        return RandomWalkState(state.key, experience, state.episodes + config.rollouts), {"length": lengths}

    def finish(state: RandomWalkState) -> States:
        states, real = visited(state.experience)
        mean = jnp.average(states, axis=0, weights=real)
        deviation = jnp.sqrt(jnp.average((states - mean) ** 2, axis=0, weights=real))
        scaled = (states - mean) / jnp.where(deviation > 1e-6, deviation, 1.0)
        cells = jax.vmap(lambda s: cell_of(s, config.cell))(scaled)
        visits = jnp.zeros(TABLE).at[cells].add(real)
        weights = 1 / jnp.maximum(visits[cells], 1.0)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def any_persistence(key: Key, horizon: int) -> Scalar:
    """1 - 1/T for a time scale T drawn log-uniformly from one step to the whole episode."""
    return 1 - jnp.exp(-jax.random.uniform(key) * jnp.log(float(horizon)))

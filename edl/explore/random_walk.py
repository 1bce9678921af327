"""Random actions that persist: the baseline for every explorer.

With probability ``persistence`` the last action is repeated; otherwise a new one is drawn uniformly. Persistence 0 is
the usual random policy.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from edl.artifacts import Experience, States, empty_experience
from edl.config import config
from edl.envs.base import Env, random_action
from edl.envs.rollout import Episode, empty_skill, rollout_with_memory
from edl.explore.collect import draw_states, record
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics


@config
class RandomWalkConfig:
    """Settings of the random walk: 100,000 steps by default in an env with 50 steps per episode."""

    iterations: int = 50
    """Number of iterations."""
    rollouts: int = 40
    """Episodes per iteration."""
    persistence: float = 0.8
    """Probability that an action is repeated."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class RandomWalkState(NamedTuple):
    """All episodes so far. ``key`` is for drawing p(s) at the end."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]


def random_walk(env: Env, config: RandomWalkConfig) -> Program[RandomWalkState, States]:
    """Act at random; p(s) is the distribution of the visited states, with equal weight per visit."""

    def init(key: Key) -> RandomWalkState:
        return RandomWalkState(key, empty_experience(env, config.iterations * config.rollouts), jnp.int32(0))

    def step(state: RandomWalkState, key: Key) -> tuple[RandomWalkState, Metrics]:
        keys = jax.random.split(key, config.rollouts)
        episodes = jax.vmap(lambda key: random_episode(key, env, config.persistence))(keys)
        experience = record(state.experience, episodes, state.episodes)
        return RandomWalkState(state.key, experience, state.episodes + config.rollouts), {}

    def finish(state: RandomWalkState) -> States:
        return draw_states(state.key, state.experience, None, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def random_episode(key: Key, env: Env, persistence: float | Array, *, start_state: PyTree | None = None) -> Episode:
    """One episode of persistent random actions, from a reset or from ``start_state``."""
    first_key, play_key = jax.random.split(key)

    def act(key: Key, observation: Array, last: Array) -> tuple[Array, Array, Array]:
        repeat_key, action_key = jax.random.split(key)
        fresh = random_action(action_key, env.action_space)
        action = jnp.where(jax.random.uniform(repeat_key) < persistence, last, fresh)
        return action, jnp.zeros(0), action

    def first_action(observation: Array) -> Array:
        return random_action(first_key, env.action_space)

    return rollout_with_memory(play_key, env, act, empty_skill(), first_action, start_state=start_state)

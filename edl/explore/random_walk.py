"""Random actions that persist: the baseline every explorer has to beat, and many published ones do not.

With probability ``persistence`` an action is repeated, otherwise it is drawn anew, uniformly. Persistence 0 is the
usual random policy.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from edl.artifacts import Experience, States, blank_experience
from edl.config import config
from edl.envs.base import Box, Discrete, Env
from edl.envs.rollout import Episode, Skill, rollout_with_memory
from edl.explore.collect import draw_states, record
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics


@config
class RandomWalkConfig:
    """100,000 steps in a world of 50."""

    iterations: int = 50
    rollouts: int = 40
    persistence: float = 0.8
    num_samples: int = 8192
    region: Predicate | None = None


class RandomWalkState(NamedTuple):
    """Everything seen so far."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]


def random_walk(env: Env, config: RandomWalkConfig) -> Program[RandomWalkState, States]:
    """Play at random; p(s) is where that leads, every visit counting the same."""

    def init(key: Key) -> RandomWalkState:
        return RandomWalkState(key, blank_experience(env, config.iterations * config.rollouts), jnp.int32(0))

    def step(state: RandomWalkState, key: Key) -> tuple[RandomWalkState, Metrics]:
        keys = jax.random.split(key, config.rollouts)
        episodes = jax.vmap(lambda key: wander(key, env, config.persistence))(keys)
        experience = record(state.experience, episodes, state.episodes)
        return RandomWalkState(state.key, experience, state.episodes + config.rollouts), {}

    def finish(state: RandomWalkState) -> States:
        weights = jnp.ones(state.experience.paths.shape[0] * state.experience.paths.shape[1])
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def wander(key: Key, env: Env, persistence: float | Array, *, start_state: PyTree | None = None) -> Episode:
    """One episode of persistent random actions, from a reset or from a state of the world."""
    begin_key, play_key = jax.random.split(key)

    def act(key: Key, observation: Array, last: Array) -> tuple[Array, Array, Array]:
        repeat_key, action_key = jax.random.split(key)
        fresh = random_action(action_key, env.action_space)
        action = jnp.where(jax.random.uniform(repeat_key) < persistence, last, fresh)
        return action, jnp.zeros(0), action

    skill = Skill(code=jnp.zeros(0), index=jnp.int32(0))

    def begin(observation: Array) -> Array:
        return random_action(begin_key, env.action_space)

    return rollout_with_memory(play_key, env, act, skill, begin, start_state=start_state)


def random_action(key: Key, space: Box | Discrete) -> Array:
    """A uniform action."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n)
    return jax.random.uniform(key, space.low.shape, minval=space.low, maxval=space.high)

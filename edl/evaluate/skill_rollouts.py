"""Stochastic rollouts of skills, and of random actions as the baseline."""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.envs.base import Box, Discrete, Env
from edl.envs.rollout import Episode, Skill, rollout
from edl.explore.random_walk import random_action
from edl.types import Key

NUM_ROLLOUTS = 20


@runtime_checkable
class Policy(Protocol):
    """The interface that evaluation needs; `SkillPolicy` has it."""

    @property
    def act(self) -> Callable[..., Array]:
        """(key, observation, code) -> a ~ pi(a|s,z)."""
        ...


class UniformPolicy(NamedTuple):
    """Uniform random actions that ignore the state and the skill: the random baseline."""

    space: Box | Discrete

    def act(self, key: Key, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Array:
        """Draw a ~ U(A)."""
        return random_action(key, self.space)


def uniform_policy(env: Env) -> UniformPolicy:
    return UniformPolicy(env.action_space)


def play_skills(
    key: Key,
    env: Env,
    policy: Policy,
    codes: Float[Array, "k z"],
    goals: Float[Array, "k s"] | None = None,
    num: int = NUM_ROLLOUTS,
) -> Episode:
    """Play ``num`` stochastic episodes of each skill; every array has the leading axes (k, num)."""

    def play(key: Key, skill: Skill) -> Episode:
        return rollout(key, env, lambda key, observation, code: (policy.act(key, observation, code), no_extras), skill)

    no_extras = jnp.zeros(0)
    keys = jax.random.split(key, (len(codes), num))
    skills = Skill(codes, jnp.arange(len(codes), dtype=jnp.int32), goals)  # type: ignore[arg-type]
    return jax.vmap(jax.vmap(play, in_axes=(0, None)))(keys, skills)


@functools.partial(jax.jit, static_argnames="num")
def rollouts(
    key: Key,
    env: Env,
    policy: Policy,
    codes: Float[Array, "k z"],
    goals: Float[Array, "k s"] | None = None,
    num: int = NUM_ROLLOUTS,
) -> Episode:
    """`play_skills`, compiled. May be vmapped over seeds."""
    return play_skills(key, env, policy, codes, goals, num)


def last_states(episodes: Episode) -> Float[np.ndarray, "*n s"]:
    """Features of the last valid state of each episode."""
    lengths = np.sum(episodes.valid, axis=-1)[..., None, None]
    return np.take_along_axis(np.asarray(episodes.features, float), lengths, axis=-2)[..., 0, :]

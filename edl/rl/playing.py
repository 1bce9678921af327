"""Episodes for a learner: one policy plays the skills that an objective draws."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.envs.base import Env
from edl.envs.rollout import Actor, Episode, rollout
from edl.objective import Objective
from edl.types import Key


def actor_of(policy: SkillPolicy) -> Actor:
    """Acts with the noise of an action, and returns the parameters of the action distribution as well."""

    def act(noise: Any, observation: Float[Array, " o"], code: Float[Array, " z"]) -> tuple[Array, Any]:
        params = policy(observation, code)
        return policy.distribution.transform(noise, params), params

    return act


def play_episodes(
    key: Key, env: Env, objective: Objective, learned: Any, policy: SkillPolicy, rollouts: int
) -> Episode:
    """Draw ``rollouts`` skills and play each from its own start, ``objective.siblings`` times.

    Siblings share the skill and the start. ``episode.rival`` of each is the state in which the other one ended.
    ``episode.extras`` are the parameters of the action distribution.
    """

    def play_siblings(key):
        skill_key, start_key, play_key = jax.random.split(key, 3)
        skill = objective.sample(skill_key, learned)
        keys = jax.random.split(play_key, objective.siblings)
        noise = policy.distribution.noise
        act = actor_of(policy)
        change = None if objective.change_skill is None else partial(objective.change_skill, learned)
        play = partial(rollout, env=env, actor=act, skill=skill, start_key=start_key, draw=noise, change=change)
        episodes = jax.vmap(play)(keys)
        episodes = episodes._replace(skill=jax.tree.map(lambda x: jnp.stack([x] * objective.siblings), skill))
        return episodes._replace(rival=jnp.roll(jax.vmap(lambda episode: episode.last)(episodes), 1, axis=0))

    siblings = jax.vmap(play_siblings)(jax.random.split(key, rollouts))
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), siblings)


def flat_observations(episodes: Episode) -> tuple[Float[Array, "n o"], Array]:
    """The observation before every step, and whether the step is valid."""
    observations = episodes.observations[:, :-1]
    return observations.reshape(-1, observations.shape[-1]), episodes.valid.reshape(-1)

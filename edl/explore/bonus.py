"""Exploration by bonus: PPO maximises a reward for novelty, and everything it sees on the way is p(s).

A bonus is an `Objective` without skills. `recorded` makes it remember every episode it is shown, `pursue` makes an
explorer of it. RND, particle entropy and MaxEnt differ in nothing but the objective.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import Experience, States, blank_experience
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_states, record
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, PPOState, ppo
from edl.types import Key, Metrics


class Recorded(NamedTuple):
    """What a bonus has learned, and all the episodes it was shown. ``key`` is kept for drawing p(s) in the end."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    learned: Any


def no_skill(key: Key, learned: Any) -> Skill:
    """A policy that explores has no skills to tell apart."""
    return Skill(code=jnp.zeros(0), index=jnp.int32(0))


def recorded(env: Env, bonus: Objective, room: int) -> Objective:
    """The same objective, which also writes up to ``room`` episodes down."""

    def init(key: Key) -> Recorded:
        return Recorded(key, blank_experience(env, room), jnp.int32(0), bonus.init(key))

    def sample(key: Key, state: Recorded) -> Skill:
        return bonus.sample(key, state.learned)

    def reward(state: Recorded, episode: Episode) -> Float[Array, " t"]:
        return bonus.reward(state.learned, episode)

    def update(key: Key, state: Recorded, episodes: Episode) -> tuple[Recorded, Metrics]:
        learned, metrics = bonus.update(key, state.learned, episodes)
        experience = record(state.experience, episodes, state.episodes)
        return Recorded(state.key, experience, state.episodes + episodes.valid.shape[0], learned), metrics

    return Objective(init=init, sample=sample, reward=reward, update=update)


def pursue(env: Env, bonus: Objective, config: Any) -> Program[PPOState, States]:
    """Train a policy on the bonus. p(s) is all that it visited while it learned, every visit counting the same.

    ``config`` is the explorer's own; the fields that are read here, all explorers by bonus have.
    """
    objective = recorded(env, bonus, config.iterations * config.rollouts)
    learner = PPOConfig(
        iterations=config.iterations,
        rollouts=config.rollouts,
        normalise=True,
        learning_rate=config.learning_rate,
        gamma=config.gamma,
        entropy_weight=config.entropy_weight,
    )
    program = ppo(env, objective, learner, codes=jnp.zeros((1, 0)))

    def finish(state: PPOState) -> States:
        seen: Recorded = state.objective
        weights = jnp.ones(seen.experience.paths.shape[0] * seen.experience.paths.shape[1])
        return draw_states(seen.key, seen.experience, weights, config.num_samples, config.region)

    return Program(program.init, program.step, finish, program.iterations, program.env_steps)


def flat_reached(episodes: Episode) -> tuple[Float[Array, "n s"], Array]:
    """Every state that a step led to, and whether the step counted."""
    reached = episodes.features[:, 1:]
    return reached.reshape(-1, reached.shape[-1]), episodes.valid.reshape(-1)

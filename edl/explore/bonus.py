"""Exploration by bonus: PPO maximises a reward for novelty, and p(s) is the states it visits while it learns.

A bonus is an `Objective` without skills. `record_experience` adds a record of every episode to it, and
`explore_with_bonus` turns it into an explorer. RND, particle entropy and MaxEnt differ only in their objective.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, States, empty_experience
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill, empty_skill
from edl.explore.collect import draw_states, record
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, PPOState, ppo
from edl.types import Key, Metrics


class RecordingState(NamedTuple):
    """The state of a bonus (``learned``) and all episodes so far. ``key`` is for drawing p(s) at the end."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    learned: Any


def no_skill(key: Key, learned: Any) -> Skill:
    """p(z) of an exploring policy, which has no skills: always the empty skill."""
    return empty_skill()


def record_experience(env: Env, bonus: Objective, capacity: int) -> Objective:
    """The same objective, which also records up to ``capacity`` whole episodes in its state."""

    def init(key: Key) -> RecordingState:
        return RecordingState(key, empty_experience(env, capacity), jnp.int32(0), bonus.init(key))

    def before_rewards(state: RecordingState, episodes: Episode) -> RecordingState:
        return state._replace(learned=bonus.before_rewards(state.learned, episodes))

    def update(key: Key, state: RecordingState, episodes: Episode) -> tuple[RecordingState, Metrics]:
        learned, metrics = bonus.update(key, state.learned, episodes)
        experience = record(state.experience, episodes, state.episodes)
        return RecordingState(state.key, experience, state.episodes + episodes.valid.shape[0], learned), metrics

    changes: dict[str, Any] = {"init": init, "update": update, "before_rewards": before_rewards}
    for name in ("sample", "reward", "privileged", "weight", "entropy_scale"):
        changes[name] = of_learned(getattr(bonus, name))
    # A learner recognises an optional field that is not in use by its default value.
    defaults = Objective._field_defaults
    in_use = (name for name in changes if name not in defaults or getattr(bonus, name) != defaults[name])
    # Whole episodes need no memory from one part to the next.
    return bonus._replace(**{name: changes[name] for name in in_use}, needs="episode", memory=None)


def of_learned(function: Callable) -> Callable:
    """The same function, called with a `RecordingState` in place of the state of the bonus."""

    def unwrapped(*args: Any) -> Any:
        return function(*(arg.learned if isinstance(arg, RecordingState) else arg for arg in args))

    return unwrapped


def explore_with_bonus(env: Env, bonus: Objective, config: Any) -> Program[PPOState, States]:
    """Train a policy on the bonus. p(s) is everything that it visits during training, with equal weight per visit.

    ``config`` is the explorer's. Every explorer by bonus has the fields that are read here.
    """
    objective = record_experience(env, bonus, config.iterations * config.rollouts)
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
        recorded: RecordingState = state.objective
        return draw_states(recorded.key, recorded.experience, None, config.num_samples, config.region)

    return Program(program.init, program.step, finish, program.iterations, program.env_steps)


def reached_states(episodes: Episode) -> tuple[Float[Array, "n s"], Bool[Array, " n"]]:
    """The state after every step, and whether the step is valid."""
    reached = episodes.features[:, 1:]
    return reached.reshape(-1, reached.shape[-1]), episodes.valid.reshape(-1)

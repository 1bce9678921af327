"""Offline methods (HILP, FB): batches of recorded transitions, and a program that learns from them alone.

An offline method gets `States` with experience, from an explorer or from a dataset. It neither resets nor steps the
env. It is built by ``build(env, states, config)``; the env tells it the sizes of features and observations and the
ranges of actions.

Experience does not say why an episode ended. Every end counts as a time limit: the last state has a value like others.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import Experience, SkillPolicy, States
from edl.config import check
from edl.envs.base import Discrete, Env
from edl.nets.optim import Trained
from edl.program import Program
from edl.rl.replay import draw_places
from edl.types import Key, Metrics, Scalar

FUTURE = 0.625
"""Share of goals that the episode reached later, as in the code of HILP; the others are from any episode."""


class Transitions(NamedTuple):
    """A batch of recorded steps. ``goal`` is a state, and ``reached`` is whether the step ends in it."""

    before: Float[Array, "n s"]
    after: Float[Array, "n s"]
    action: Float[Array, "n a"]
    goal: Float[Array, "n s"]
    reached: Bool[Array, " n"]
    other: Float[Array, "n s"]


class OfflineState(NamedTuple):
    """The networks with their optimiser, and the targets that follow them slowly."""

    trained: Trained
    targets: Any


def check_offline(env: Env, states: States, name: str) -> Experience:
    """The experience of the states, or a `ConfigError` if the method cannot learn from it."""
    check(
        states.experience is not None,
        f"{name} learns from recorded transitions, and the states have none (got states alone). Use an explorer that "
        "acts, or a dataset with the arrays states, actions and ends.",
    )
    check(
        env.feature_size == env.observation_size,
        f"{name} needs an env whose features are its observations (got {env.feature_size} features and "
        f"{env.observation_size} observations), because experience records features. Use another env or method.",
    )
    check(not isinstance(env.action_space, Discrete), f"{name} needs continuous actions. Use an env that has them.")
    assert states.experience is not None
    return states.experience


def draw_transitions(key: Key, experience: Experience, count: int) -> Transitions:
    """Steps drawn uniformly, each with a goal: a state its episode reached later, or a state of any episode."""
    step_key, later_key, other_key, kind_key = jax.random.split(key, 4)
    lengths = experience.lengths
    ends = jnp.cumsum(lengths)
    rows, times = draw_places(step_key, ends, count)
    ahead = jax.random.uniform(later_key, (count,)) * (lengths[rows] - times)
    later_times = times + 1 + jnp.floor(ahead).astype(jnp.int32)
    later_times = jnp.minimum(later_times, lengths[rows])
    other_rows, other_times = draw_places(other_key, ends, count)
    other = experience.paths[other_rows, other_times + 1]
    is_later = jax.random.uniform(kind_key, (count,)) < FUTURE
    return Transitions(
        before=experience.paths[rows, times],
        after=experience.paths[rows, times + 1],
        action=experience.actions[rows, times],
        goal=jnp.where(is_later[:, None], experience.paths[rows, later_times], other),
        reached=is_later & (later_times == times + 1),
        other=other,
    )


def offline_program(
    init: Callable[[Key], OfflineState],
    improve: Callable[[Key, OfflineState], tuple[OfflineState, Metrics]],
    finish: Callable[[OfflineState], SkillPolicy],
    iterations: int,
    gradient_steps: int,
) -> Program[OfflineState, SkillPolicy]:
    """Repeat ``improve``, ``gradient_steps`` times per iteration. No step is taken in the env."""

    def step(state: OfflineState, key: Key) -> tuple[OfflineState, Metrics]:
        keys = jax.random.split(key, gradient_steps)
        state, metrics = jax.lax.scan(lambda state, key: improve(key, state), state, keys)
        return state, jax.tree.map(jnp.mean, metrics)

    return Program(init, step, finish, iterations)


def follow(targets: Any, networks: Any, tau: float | Scalar) -> Any:
    """Targets that move a share ``tau`` of the way towards the networks."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), targets, networks)

"""The only time loop: play one episode with one skill."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.envs.base import Env
from edl.envs.host import HostEnv, scan_while_any
from edl.types import Key, Keys


class Skill(NamedTuple):
    """z.

    As the policy sees it (``code``), as a number (``index``; -1 if skills are continuous), and where it leads
    (``goal``; None for methods without goals).
    """

    code: Float[Array, " z"]
    index: Int[Array, ""]
    goal: Float[Array, " s"] = None  # type: ignore[assignment]  # whoever reads it is a method that has goals


class Episode(NamedTuple):
    """One episode s_0, a_0, s_1, ..., s_T under one skill. A batch of episodes has a leading axis everywhere.

    ``observations`` has one row more than the other arrays. Steps after a termination are played but not ``valid``.
    ``extras`` is what the acting policy wants to remember of each step (PPO: the log-probability of its action).
    ``rival`` holds the features in which the sibling's episode ended, where siblings are played (Sibling Rivalry).
    ``states`` are the world's own s_1 .. s_T, of an episode that was restored, so that it can be restored from there.
    """

    observations: Float[Array, "t1 o"]
    features: Float[Array, "t1 s"]
    actions: Array
    terminated: Bool[Array, " t"]
    truncated: Bool[Array, " t"]
    valid: Bool[Array, " t"]
    skill: Skill
    extras: Any = None  # read by whoever put it there
    rival: Float[Array, " s"] = None  # type: ignore[assignment]
    states: PyTree | None = None

    @property
    def length(self) -> Int[Array, ""]:
        """Number of valid steps."""
        return jnp.sum(self.valid)

    @property
    def last(self) -> Float[Array, " s"]:
        """Features of the last valid state, s_T."""
        return self.features[self.length]


def steps_a_turn() -> int:
    """Steps in one turn of the time loop. On a GPU a turn costs as much as a step of one run; a CPU gains nothing."""
    return 1 if jax.default_backend() == "cpu" else 2


Draw = Callable[[Key], Any]
"""What an actor makes of its key before it has seen anything."""
Actor = Callable[[Any, Float[Array, " o"], Float[Array, " z"]], tuple[Array, Any]]
"""(key, or what was drawn by it; observation; code) -> (action, extras)."""
RememberingActor = Callable[[Any, Float[Array, " o"], Any], tuple[Array, Any, Any]]
"""(key, or what was drawn by it; observation; memory) -> (action, extras, memory)."""


def rollout(
    key: Key, env: Env, actor: Actor, skill: Skill, *, start_key: Key | None = None, draw: Draw | None = None
) -> Episode:
    """Play ``env.horizon`` steps. Episodes with the same ``start_key`` start in the same state (siblings do).

    With ``draw``, the actor gets ``draw(key)`` instead of a key, made for all steps before the first one is taken: a
    loop over time cannot be wide, and random numbers can.
    """

    def remember(drawn: Any, observation: Float[Array, " o"], memory: None) -> tuple[Array, Any, None]:
        action, extras = actor(drawn, observation, skill.code)
        return action, extras, memory

    return rollout_with_memory(key, env, remember, skill, lambda observation: None, start_key=start_key, draw=draw)


def rollout_with_memory(
    key: Key,
    env: Env,
    actor: RememberingActor,
    skill: Skill,
    begin: Callable[[Float[Array, " o"]], Any],
    *,
    start_key: Key | None = None,
    start_state: PyTree | None = None,
    draw: Draw | None = None,
) -> Episode:
    """Play an actor that carries a memory through the episode; ``begin`` makes it from the first observation.

    With ``start_state`` the episode does not start at a reset but in that state of the world. Its time limit begins
    there, whatever the state's own clock says.
    """
    reset_key, play_key = jax.random.split(key)
    restored = start_state is not None
    state = start_state if restored else env.reset(reset_key if start_key is None else start_key)

    keys: Keys = jax.vmap(jax.random.split)(jax.random.split(play_key, env.horizon))
    drawn = keys[:, 0] if draw is None else jax.vmap(draw)(keys[:, 0])

    def advance(carry, chances):
        state, memory, valid = carry
        drawn, step_key = chances
        observation = env.observe(state)
        action, extras, memory = actor(drawn, observation, memory)
        step = env.step(step_key, state, action)
        done = step.terminated if restored else step.terminated | step.truncated
        states = step.state if restored else None
        played = (observation, action, step.observation, step.terminated, step.truncated, valid, extras, states)
        return (step.state, memory, valid & ~done), played

    first = (state, begin(env.observe(state)), jnp.bool_(True))
    # Steps outside of JAX are too dear to be played after the end.
    by_host = partial(scan_while_any, lambda carry: carry[2])
    scan = by_host if isinstance(env, HostEnv) else partial(jax.lax.scan, unroll=steps_a_turn())
    _, played = scan(advance, first, (drawn, keys[:, 1]))
    observations, actions, reached, terminated, truncated, valid, extras, states = played
    observations = jnp.concatenate([observations, reached[-1:]])
    return Episode(
        observations=observations,
        features=jax.vmap(env.features)(observations),
        actions=actions,
        terminated=terminated,
        truncated=truncated,
        valid=valid,
        skill=skill,
        extras=extras,
        states=states,
    )

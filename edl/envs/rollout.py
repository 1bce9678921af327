"""The only time loop: roll out one episode, or a part of one, with one skill."""

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
    """z: the input of the policy (``code``), a number (``index``; -1 if skills are continuous), and a ``goal``.

    ``goal`` is None for methods without goals.
    """

    code: Float[Array, " z"]
    index: Int[Array, ""]
    goal: Float[Array, " s"] = None  # type: ignore[assignment]  # only methods with goals read it


def empty_skill() -> Skill:
    """The skill of a policy without skills: its code has no dimensions."""
    return Skill(code=jnp.zeros(0), index=jnp.int32(0))


class Episode(NamedTuple):
    """One episode s_0, a_0, s_1, ..., s_T under one skill. A batch of episodes has a leading axis everywhere.

    ``observations`` and ``features`` have one row more than the other arrays. After its end, an episode keeps its last
    state, and its steps are not ``valid``. ``extras`` are what the actor returns besides its actions (PPO: parameters
    of the action distribution). ``rival`` are the last features of the sibling's episode (Sibling Rivalry). ``states``
    are the env states s_1 .. s_T, kept only if the episode began in a given state: other episodes can begin in them.
    ``memory`` is what the reward remembers at the end of the episode, or of a part of it (PPO,
    `edl.objective.RewardMemory`). ``skills`` are the skills of all steps, kept only if the skill changes within the
    episode; ``skill`` is then the one that was drawn for the episode.
    """

    observations: Float[Array, "t1 o"]
    features: Float[Array, "t1 s"]
    actions: Array
    terminated: Bool[Array, " t"]
    truncated: Bool[Array, " t"]
    valid: Bool[Array, " t"]
    skill: Skill
    extras: Any = None
    rival: Float[Array, " s"] = None  # type: ignore[assignment]
    states: PyTree | None = None
    memory: Any = None
    skills: Skill | None = None

    @property
    def length(self) -> Int[Array, ""]:
        """Number of valid steps."""
        return jnp.sum(self.valid)

    @property
    def last(self) -> Float[Array, " s"]:
        """Features of the last valid state, s_T."""
        return self.features[self.length]

    @property
    def ended(self) -> Bool[Array, ""]:
        """Whether the episode is over. A part of an episode may not be."""
        return jnp.any(self.valid & (self.terminated | self.truncated))


def scan_unroll(env: Env) -> int:
    """Env steps per iteration of the scan. On a GPU an iteration costs as much as a step of a maze."""
    return 1 if env.slow_to_compile or jax.default_backend() == "cpu" else 2


Draw = Callable[[Key], Any]
"""The part of an actor that depends on its key alone, e.g. the noise of an action."""
Actor = Callable[[Any, Float[Array, " o"], Float[Array, " z"]], tuple[Array, Any]]
"""(key or the result of `Draw`, observation, code) -> (action, extras)."""
ChangeSkill = Callable[[Skill, Int[Array, ""], Float[Array, " s"]], Skill]
"""(skill of the step before, or that drawn for the episode at time 0; time; features) -> skill of this step."""
ActorWithMemory = Callable[[Any, Float[Array, " o"], Any], tuple[Array, Any, Any]]
"""(key or the result of `Draw`, observation, memory) -> (action, extras, memory)."""


def rollout(
    key: Key,
    env: Env,
    actor: Actor,
    skill: Skill,
    *,
    start_key: Key | None = None,
    draw: Draw | None = None,
    change: ChangeSkill | None = None,
) -> Episode:
    """Roll out ``env.horizon`` steps. Episodes with the same ``start_key`` start in the same state (siblings).

    With ``draw``, the actor receives ``draw(key)`` instead of a key. It is computed for all steps at once before the
    first one, because that vectorises over time and the loop does not. With ``change``, each step has a
    skill of its own.
    """
    if change is None:
        act = without_memory(actor, skill)
        return rollout_with_memory(key, env, act, skill, no_memory, start_key=start_key, draw=draw)
    act, start = with_changes(env, actor, change), (skill, jnp.int32(0))
    episode = rollout_with_memory(key, env, act, skill, lambda observation: start, start_key=start_key, draw=draw)
    extras, skills = episode.extras
    return episode._replace(extras=extras, skills=skills)


def without_memory(actor: Actor, skill: Skill) -> ActorWithMemory:
    """An actor that acts with this skill, as one whose memory is None."""

    def act(drawn: Any, observation: Float[Array, " o"], memory: None) -> tuple[Array, Any, None]:
        action, extras = actor(drawn, observation, skill.code)
        return action, extras, memory

    return act


def with_changes(env: Env, actor: Actor, change: ChangeSkill) -> ActorWithMemory:
    """An actor that changes its skill, as one whose memory is the skill and the time. Its extras include the skill."""

    def act(drawn: Any, observation: Float[Array, " o"], memory: tuple[Skill, Array]) -> tuple[Array, Any, Any]:
        skill, time = memory
        skill = change(skill, time, env.features(observation))
        action, extras = actor(drawn, observation, skill.code)
        return action, (extras, skill), (skill, time + 1)

    return act


def no_memory(observation: Float[Array, " o"]) -> None:
    return None


def rollout_with_memory(
    key: Key,
    env: Env,
    actor: ActorWithMemory,
    skill: Skill,
    init_memory: Callable[[Float[Array, " o"]], Any],
    *,
    start_key: Key | None = None,
    start_state: PyTree | None = None,
    draw: Draw | None = None,
) -> Episode:
    """Roll out an actor with a memory, which ``init_memory`` computes from the first observation.

    With ``start_state`` the episode starts in that state of the env instead of a reset. Its time limit counts from
    there, and not from the time stored in the state.
    """
    reset_key, rollout_key = jax.random.split(key)
    from_state = start_state is not None
    state = start_state if from_state else env.reset(reset_key if start_key is None else start_key)
    _, episode = _play(rollout_key, env, actor, skill, state, init_memory, env.horizon, draw, from_state)
    return episode


def continue_rollout(
    key: Key, env: Env, actor: Actor, skill: Skill, state: PyTree, steps: int, *, draw: Draw | None = None
) -> tuple[PyTree, Episode]:
    """Play the next ``steps`` steps of an episode. Returns the state of the env after them, and this part."""
    return _play(key, env, without_memory(actor, skill), skill, state, no_memory, steps, draw, False)


def _play(
    key: Key,
    env: Env,
    actor: ActorWithMemory,
    skill: Skill,
    state: PyTree,
    init_memory: Callable[[Float[Array, " o"]], Any],
    steps: int,
    draw: Draw | None,
    from_state: bool,
) -> tuple[PyTree, Episode]:
    """The loop itself. ``from_state``: ignore the time limit of the env, and keep its states."""
    keys: Keys = jax.vmap(jax.random.split)(jax.random.split(key, steps))
    drawn = keys[:, 0] if draw is None else jax.vmap(draw)(keys[:, 0])

    def advance(carry, random_inputs):
        state, memory, valid = carry
        drawn, step_key = random_inputs
        observation = env.observe(state)
        action, extras, memory = actor(drawn, observation, memory)
        step = env.step(step_key, state, action)
        # An episode that has ended keeps its state: what an env returns after the end may not even be finite.
        state = jax.tree.map(lambda new, old: jnp.where(valid, new, old), step.state, state)
        done = step.terminated if from_state else step.terminated | step.truncated
        states = state if from_state else None
        record = (observation, action, step.terminated, step.truncated, valid, extras, states)
        return (state, memory, valid & ~done), record

    first = (state, init_memory(env.observe(state)), jnp.bool_(True))
    # Steps outside of JAX are too expensive to compute after the end of an episode.
    on_host = partial(scan_while_any, lambda carry: carry[2])
    scan = on_host if isinstance(env, HostEnv) else partial(jax.lax.scan, unroll=scan_unroll(env))
    (state, _, _), records = scan(advance, first, (drawn, keys[:, 1]))
    observations, actions, terminated, truncated, valid, extras, states = records
    observations = jnp.concatenate([observations, env.observe(state)[None]])
    return state, Episode(
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

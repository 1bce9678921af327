"""A replay buffer as a pytree: a ring of transitions (or other rows) that a scan can carry and a vmap can batch.

A transition stores everything that a reward may depend on. So rewards can be computed when the transition is sampled,
with the current state of the objective, instead of when it was played: see `as_episode`.

A method that learns from `Experience` draws from it directly: `draw_places`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.envs.rollout import Episode, Skill
from edl.objective import Objective, keep_skill
from edl.types import Key, Scalar


class Transition(NamedTuple):
    """One step from s_t to s_{t+1} under a skill. A batch of transitions has a leading axis everywhere.

    ``reward`` is the reward that was computed when the step was played. ``terminated`` is false at a time limit,
    because the state reached there has a value like any other. ``remaining`` counts the later steps of the episode.
    ``bounds`` are limits of the best return after this step, if they are known.
    """

    observations: Float[Array, "2 o"]
    features: Float[Array, "2 s"]
    action: Array
    reward: Scalar
    terminated: Bool[Array, ""]
    skill: Skill
    remaining: Int[Array, ""] | None = None
    bounds: Float[Array, " 2"] | None = None


class Replay(NamedTuple):
    """A ring of ``capacity`` rows: the first ``size`` rows are real, and row ``cursor`` is written next.

    The learner stores transitions; an objective may use a ring for other rows.
    """

    rows: PyTree
    size: Int[Array, ""]
    cursor: Int[Array, ""]

    @property
    def capacity(self) -> int:
        """Maximum number of rows."""
        return jax.tree.leaves(self.rows)[0].shape[0]


def empty_replay(like: PyTree, capacity: int) -> Replay:
    """A ring for ``capacity`` rows with the shapes of ``like``, a batch of rows (or its `jax.eval_shape`)."""
    rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
    return Replay(rows, jnp.int32(0), jnp.int32(0))


def to_transitions(episodes: Episode, rewards: Float[Array, "e t"]) -> tuple[Transition, Bool[Array, " n"]]:
    """The steps of a batch of episodes, one row each in the order of play, and whether each is valid."""
    horizon = episodes.valid.shape[1]

    def pairs(x: Float[Array, "e t1 d"]) -> Float[Array, "e t 2 d"]:
        return jnp.stack([x[:, :-1], x[:, 1:]], axis=2)

    def skills() -> Skill:
        if episodes.skills is not None:
            return episodes.skills
        return jax.tree.map(lambda x: jnp.repeat(x[:, None], horizon, axis=1), episodes.skill)

    lengths = jnp.sum(episodes.valid, axis=1, keepdims=True)
    steps = Transition(
        observations=pairs(episodes.observations),
        features=pairs(episodes.features),
        action=episodes.actions,
        reward=rewards,
        terminated=episodes.terminated,
        skill=skills(),
        remaining=lengths - 1 - jnp.arange(horizon),
    )
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps), episodes.valid.reshape(-1)


def add(replay: Replay, rows: PyTree, valid: Bool[Array, " n"]) -> Replay:
    """Write the valid rows (at most ``capacity``) over the oldest ones."""
    rank = jnp.cumsum(valid) - 1
    count = jnp.sum(valid)
    # Invalid rows get an index outside the ring, where they are dropped, so they take up no space.
    places = jnp.where(valid, (replay.cursor + rank) % replay.capacity, replay.capacity)
    written = jax.tree.map(lambda old, new: old.at[places].set(new, mode="drop"), replay.rows, rows)
    size = jnp.minimum(replay.size + count, replay.capacity)
    return Replay(written, size, (replay.cursor + count) % replay.capacity)


def sample(key: Key, replay: Replay, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Row numbers drawn uniformly, with replacement, from the real rows. There must be at least one."""
    return jax.random.randint(key, shape, 0, replay.size)


def read(replay: Replay, rows: Int[Array, "..."]) -> PyTree:
    """The rows with these numbers."""
    return jax.tree.map(lambda x: x[rows], replay.rows)


def sample_steps(key: Key, replay: Replay, count: int) -> Episode:
    """``count`` steps of the replay buffer, drawn uniformly, as a batch of episodes of length one."""
    return jax.vmap(as_episode)(read(replay, sample(key, replay, (count,))))


def as_episode(transition: Transition) -> Episode:
    """A transition as an episode of one step, for which ``objective.reward`` can be computed again.

    The reward is the same as in the transition's own episode if it depends only on s_t, s_{t+1}, z and the end of the
    episode (``terminated`` or ``truncated``). A reward for whole episodes cannot be computed from one step.
    """
    remaining = transition.remaining
    last = jnp.bool_(False) if remaining is None else (remaining == 0) & ~transition.terminated
    return Episode(
        observations=transition.observations,
        features=transition.features,
        actions=transition.action[None],
        terminated=transition.terminated[None],
        truncated=last[None],
        valid=jnp.ones(1, bool),
        skill=transition.skill,
    )


def end_at_time_limit(episodes: Episode) -> Episode:
    """The same episodes with every time limit marked as a termination."""
    return episodes._replace(terminated=episodes.terminated | episodes.truncated)


def relabel_skills(
    key: Key, objective: Objective, learned: Any, replay: Replay, rows: Int[Array, "m n"]
) -> Skill | None:
    """The skills that all ``rows`` are replayed with, or None if these are the skills they were played with."""
    if objective.relabel is keep_skill:
        return None
    share_key, relabel_key = jax.random.split(key)
    flat = rows.reshape(-1)
    later = reached_later(replay, flat, jax.random.uniform(share_key, flat.shape))
    steps = jax.vmap(as_episode)(read(replay, flat))
    keys = jax.random.split(relabel_key, flat.shape)
    skills = jax.vmap(objective.relabel, (0, None, 0, 0))(keys, learned, steps, later)
    return jax.tree.map(lambda x: x.reshape(*rows.shape, *x.shape[1:]), skills)


def reached_later(replay: Replay, rows: Int[Array, " n"], share: Float[Array, " n"]) -> Float[Array, "n s"]:
    """Features of one of the states s_{t+1} .. s_T of each row's own episode.

    ``share`` in [0, 1) selects the state: 0 is s_{t+1}, and values close to 1 are s_T. The ring overwrites the oldest
    steps first, so it holds all later steps of every step it holds.
    """
    ahead = jnp.floor(share * (replay.rows.remaining[rows] + 1)).astype(jnp.int32)
    return replay.rows.features[(rows + ahead) % replay.capacity, 1]


class Places(NamedTuple):
    """Where steps or states are in recorded episodes: the rows and the times."""

    rows: Int[Array, " n"]
    times: Int[Array, " n"]


def draw_places(key: Key, ends: Int[Array, " e"], count: int) -> Places:
    """Draw ``count`` places independently, all with the same probability.

    ``ends`` are the cumulative numbers of places in the rows, so a draw costs a binary search. `resample` of
    `edl.explore.collect` visits every row of its weights, which is too much for minibatches.
    """
    numbers = jax.random.randint(key, (count,), 0, jnp.maximum(ends[-1], 1))
    rows = jnp.searchsorted(ends, numbers, side="right")
    return Places(rows, numbers - jnp.where(rows > 0, ends[rows - 1], 0))

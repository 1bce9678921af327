"""A replay buffer as a pytree: a ring of transitions, or other rows, that a scan can carry and a vmap can batch.

Of a transition everything is kept that a reward may look at, so that rewards can be computed when it is sampled, with
what the objective knows by then, instead of when it was played: see `as_episode`.
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

    ``reward`` is what the objective paid when the step was played. A time limit is no termination: the state it cut off
    has a value like any other. ``remaining`` counts the steps that followed in the same episode.
    """

    observations: Float[Array, "2 o"]
    features: Float[Array, "2 s"]
    action: Array
    reward: Scalar
    terminated: Bool[Array, ""]
    skill: Skill
    remaining: Int[Array, ""] | None = None


class Replay(NamedTuple):
    """The last ``capacity`` rows: the first ``size`` are real, and ``cursor`` is written next.

    A row is a transition for the learner; an objective may keep a ring of whatever it learns from.
    """

    rows: PyTree
    size: Int[Array, ""]
    cursor: Int[Array, ""]

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return jax.tree.leaves(self.rows)[0].shape[0]


def blank_replay(like: PyTree, capacity: int) -> Replay:
    """Room for ``capacity`` rows of the shapes in ``like``, a batch of them (or `jax.eval_shape` of one)."""
    rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
    return Replay(rows, jnp.int32(0), jnp.int32(0))


def transitions_of(episodes: Episode, rewards: Float[Array, "e t"]) -> tuple[Transition, Bool[Array, " n"]]:
    """Every step of a batch of episodes, one row each in the order they were played, and whether it counts."""
    horizon = episodes.valid.shape[1]

    def pairs(x: Float[Array, "e t1 d"]) -> Float[Array, "e t 2 d"]:
        return jnp.stack([x[:, :-1], x[:, 1:]], axis=2)

    lengths = jnp.sum(episodes.valid, axis=1, keepdims=True)
    steps = Transition(
        observations=pairs(episodes.observations),
        features=pairs(episodes.features),
        action=episodes.actions,
        reward=rewards,
        terminated=episodes.terminated,
        skill=jax.tree.map(lambda x: jnp.repeat(x[:, None], horizon, axis=1), episodes.skill),
        remaining=lengths - 1 - jnp.arange(horizon),
    )
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps), episodes.valid.reshape(-1)


def add(replay: Replay, rows: PyTree, valid: Bool[Array, " n"]) -> Replay:
    """Write the valid rows, at most ``capacity`` of them, over the oldest ones."""
    rank = jnp.cumsum(valid) - 1
    count = jnp.sum(valid)
    # Invalid rows are sent outside, where they are dropped, so that they use up no room.
    places = jnp.where(valid, (replay.cursor + rank) % replay.capacity, replay.capacity)
    written = jax.tree.map(lambda old, new: old.at[places].set(new, mode="drop"), replay.rows, rows)
    size = jnp.minimum(replay.size + count, replay.capacity)
    return Replay(written, size, (replay.cursor + count) % replay.capacity)


def sample(key: Key, replay: Replay, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Rows drawn uniformly, with replacement, from those that are there (at least one must be)."""
    return jax.random.randint(key, shape, 0, replay.size)


def read(replay: Replay, rows: Int[Array, "..."]) -> PyTree:
    """Some of the rows."""
    return jax.tree.map(lambda x: x[rows], replay.rows)


def reached_later(replay: Replay, rows: Int[Array, " n"], share: Float[Array, " n"]) -> Float[Array, "n s"]:
    """The features in s_{t+1} .. s_T of each row's own episode, at the ``share`` in [0, 1) of what was left of it.

    A ring forgets the oldest steps first, so that of a step that is there the later ones are there too.
    """
    ahead = jnp.floor(share * (replay.rows.remaining[rows] + 1)).astype(jnp.int32)
    return replay.rows.features[(rows + ahead) % replay.capacity, 1]


def as_episode(transition: Transition) -> Episode:
    """A transition as an episode of one step, so that ``objective.reward`` can be asked what it is worth now.

    That is the same as in its own episode for every reward that looks at s_t, s_{t+1}, z and the end of the episode
    (``terminated`` or ``truncated``) alone; a reward for whole episodes cannot be told from one step.
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


def ended(episodes: Episode, bootstrap: bool) -> Episode:
    """Episodes in which a time limit ends the world too, unless it is bootstrapped over."""
    return episodes if bootstrap else episodes._replace(terminated=episodes.terminated | episodes.truncated)


def relabelled(key: Key, objective: Objective, learned: Any, replay: Replay, rows: Int[Array, "m n"]) -> Skill | None:
    """The skills that rows are replayed with; None if those they were played with. All at once, as in `draw`."""
    if objective.relabel is keep_skill:
        return None
    share_key, relabel_key = jax.random.split(key)
    flat = rows.reshape(-1)
    later = reached_later(replay, flat, jax.random.uniform(share_key, flat.shape))
    steps = jax.vmap(as_episode)(read(replay, flat))
    keys = jax.random.split(relabel_key, flat.shape)
    skills = jax.vmap(objective.relabel, (0, None, 0, 0))(keys, learned, steps, later)
    return jax.tree.map(lambda x: x.reshape(*rows.shape, *x.shape[1:]), skills)


def recalled(key: Key, replay: Replay, count: int) -> Episode:
    """``count`` steps of the replay buffer, drawn uniformly, as a batch of episodes of length one."""
    return jax.vmap(as_episode)(read(replay, sample(key, replay, (count,))))

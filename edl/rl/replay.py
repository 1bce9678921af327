"""A replay buffer as a pytree: a ring of transitions that a scan can carry and a vmap can batch.

Of a transition everything is kept that a reward may look at, so that rewards can be computed when it is sampled, with
what the objective knows by then, instead of when it was played: see `as_episode`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.envs.rollout import Episode, Skill
from edl.types import Key, Scalar


class Transition(NamedTuple):
    """One step from s_t to s_{t+1} under a skill. A batch of transitions has a leading axis everywhere.

    ``reward`` is what the objective paid when the step was played. A time limit leaves no trace: the state it cut off
    has a value like any other.
    """

    observations: Float[Array, "2 o"]
    features: Float[Array, "2 s"]
    action: Array
    reward: Scalar
    terminated: Bool[Array, ""]
    skill: Skill


class Replay(NamedTuple):
    """The last ``capacity`` transitions: of the rows the first ``size`` are real, and ``cursor`` is written next."""

    rows: Transition
    size: Int[Array, ""]
    cursor: Int[Array, ""]

    @property
    def capacity(self) -> int:
        """How many transitions there is room for."""
        return self.rows.terminated.shape[-1]


def blank_replay(like: PyTree, capacity: int) -> Replay:
    """Room for ``capacity`` transitions of the shapes in ``like``, a batch of them (or `jax.eval_shape` of one)."""
    rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
    return Replay(rows, jnp.int32(0), jnp.int32(0))


def transitions_of(episodes: Episode, rewards: Float[Array, "e t"]) -> tuple[Transition, Bool[Array, " n"]]:
    """Every step of a batch of episodes, one row each in the order they were played, and whether it counts."""
    horizon = episodes.valid.shape[1]

    def pairs(x: Float[Array, "e t1 d"]) -> Float[Array, "e t 2 d"]:
        return jnp.stack([x[:, :-1], x[:, 1:]], axis=2)

    steps = Transition(
        observations=pairs(episodes.observations),
        features=pairs(episodes.features),
        action=episodes.actions,
        reward=rewards,
        terminated=episodes.terminated,
        skill=jax.tree.map(lambda x: jnp.repeat(x[:, None], horizon, axis=1), episodes.skill),
    )
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps), episodes.valid.reshape(-1)


def add(replay: Replay, transitions: Transition, valid: Bool[Array, " n"]) -> Replay:
    """Write the valid transitions, at most ``capacity`` of them, over the oldest ones."""
    rank = jnp.cumsum(valid) - 1
    count = jnp.sum(valid)
    # Invalid rows are sent outside, where they are dropped, so that they use up no room.
    places = jnp.where(valid, (replay.cursor + rank) % replay.capacity, replay.capacity)
    rows = jax.tree.map(lambda old, new: old.at[places].set(new, mode="drop"), replay.rows, transitions)
    size = jnp.minimum(replay.size + count, replay.capacity)
    return Replay(rows, size, (replay.cursor + count) % replay.capacity)


def sample(key: Key, replay: Replay, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Rows drawn uniformly, with replacement, from those that are there (at least one must be)."""
    return jax.random.randint(key, shape, 0, replay.size)


def read(replay: Replay, rows: Int[Array, " n"]) -> Transition:
    """The transitions in some rows."""
    return jax.tree.map(lambda x: x[rows], replay.rows)


def as_episode(transition: Transition) -> Episode:
    """A transition as an episode of one step, so that ``objective.reward`` can be asked what it is worth now.

    That is the same as in its own episode for every reward that looks at s_t, s_{t+1} and z alone, as those lifted by
    `per_visit` do; a reward for whole episodes cannot be told from one step.
    """
    return Episode(
        observations=transition.observations,
        features=transition.features,
        actions=transition.action[None],
        terminated=transition.terminated[None],
        truncated=jnp.zeros(1, bool),
        valid=jnp.ones(1, bool),
        skill=transition.skill,
    )

"""What methods that learn from their own visits share: rows of (state, skill), and minibatch descent over them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, descend
from edl.types import Key, Metrics


def one_hot_skill(key: Key, num_skills: int) -> Skill:
    """z ~ uniform over the skills, seen by the policy as one-hot."""
    index = jax.random.randint(key, (), 0, num_skills)
    return Skill(code=jax.nn.one_hot(index, num_skills), index=index)


def visits(episodes: Episode) -> tuple[Float[Array, "n s"], Int[Array, " n"], Float[Array, " n"]]:
    """Every state reached, the skill it was reached with, and 1 if the visit counts."""
    reached = episodes.features[:, 1:]
    skills = jnp.repeat(episodes.skill.index[:, None], reached.shape[1], axis=1)
    return reached.reshape(-1, reached.shape[-1]), skills.reshape(-1), episodes.valid.reshape(-1).astype(jnp.float32)


def sgd(
    key: Key,
    optimiser: optax.GradientTransformation,
    trained: Trained,
    loss: Callable[[Any, PyTree], tuple[Any, Metrics]],
    rows: PyTree,
    epochs: int,
    minibatches: int,
) -> tuple[Trained, Metrics]:
    """``epochs`` passes over the rows in shuffled minibatches."""
    size = jax.tree.leaves(rows)[0].shape[0]
    part = size // minibatches

    def epoch(trained: Trained, key: Key) -> tuple[Trained, Metrics]:
        order = jax.random.permutation(key, size)[: part * minibatches]
        shuffled = jax.tree.map(lambda x: x[order].reshape(minibatches, part, *x.shape[1:]), rows)
        return jax.lax.scan(lambda t, batch: descend(optimiser, t, loss, batch), trained, shuffled)

    trained, metrics = jax.lax.scan(epoch, trained, jax.random.split(key, epochs))
    return trained, jax.tree.map(jnp.mean, metrics)


class Moves(NamedTuple):
    """Rows of (s, s', z): z as its code, and 1 in ``weight`` if the move counts."""

    before: Float[Array, "n s"]
    after: Float[Array, "n s"]
    code: Float[Array, "n z"]
    weight: Float[Array, " n"]


def moves(episodes: Episode) -> Moves:
    """Every step that was taken."""
    count, horizon = episodes.valid.shape
    steps = Moves(
        before=episodes.features[:, :-1],
        after=episodes.features[:, 1:],
        code=jnp.repeat(episodes.skill.code[:, None], horizon, axis=1),
        weight=episodes.valid.astype(jnp.float32),
    )
    return jax.tree.map(lambda x: x.reshape(count * horizon, *x.shape[2:]), steps)

"""Fit a model to the policy's own episodes: rows of (s, z) or (s, s', z), and minibatch SGD over them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from edl.envs.rollout import Episode
from edl.nets.optim import Trained, gradient_step
from edl.types import Key, Metrics


class Visits(NamedTuple):
    """Rows of (s, z), with z as its index. ``weight`` is 0 for steps after the episode's end."""

    states: Float[Array, "n s"]
    skills: Int[Array, " n"]
    weight: Float[Array, " n"]


def visits_of(episodes: Episode) -> Visits:
    """Every state after the first one of each episode."""
    reached = episodes.features[:, 1:]
    skills = jnp.repeat(episodes.skill.index[:, None], reached.shape[1], axis=1)
    return Visits(
        states=reached.reshape(-1, reached.shape[-1]),
        skills=skills.reshape(-1),
        weight=episodes.valid.reshape(-1).astype(jnp.float32),
    )


class Moves(NamedTuple):
    """Rows of (s, s', z), with z as its code. ``weight`` is 0 for steps after the episode's end."""

    before: Float[Array, "n s"]
    after: Float[Array, "n s"]
    code: Float[Array, "n z"]
    weight: Float[Array, " n"]


def moves_of(episodes: Episode) -> Moves:
    """Every step of every episode."""
    count, horizon = episodes.valid.shape
    steps = Moves(
        before=episodes.features[:, :-1],
        after=episodes.features[:, 1:],
        code=jnp.repeat(episodes.skill.code[:, None], horizon, axis=1),
        weight=episodes.valid.astype(jnp.float32),
    )
    return jax.tree.map(lambda x: x.reshape(count * horizon, *x.shape[2:]), steps)


def sgd(
    key: Key,
    optimiser: optax.GradientTransformation,
    trained: Trained,
    loss: Callable[[Any, PyTree], tuple[Any, Metrics]],
    rows: PyTree,
    epochs: int,
    minibatches: int,
) -> tuple[Trained, Metrics]:
    """Train for ``epochs`` passes over the rows in shuffled minibatches. Returns the mean of each metric."""
    size = jax.tree.leaves(rows)[0].shape[0]
    minibatch_size = size // minibatches

    def epoch(trained: Trained, key: Key) -> tuple[Trained, Metrics]:
        order = jax.random.permutation(key, size)[: minibatch_size * minibatches]
        batches = jax.tree.map(lambda x: x[order].reshape(minibatches, minibatch_size, *x.shape[1:]), rows)
        return jax.lax.scan(lambda t, batch: gradient_step(optimiser, t, loss, batch), trained, batches)

    trained, metrics = jax.lax.scan(epoch, trained, jax.random.split(key, epochs))
    return trained, jax.tree.map(jnp.mean, metrics)

"""The only place where an optax update is applied, and the minibatches it is applied to."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree, UInt32

from edl.config import check
from edl.types import Key, Metrics

MIN_RANDOM_BITS = 12
"""Minimum number of random bits per row for the fast shuffle of `shuffled_orders`."""


class Trained(NamedTuple):
    """Parameters and the state of their optimiser."""

    params: PyTree
    opt_state: optax.OptState


def new_trained(optimiser: optax.GradientTransformation, params: PyTree) -> Trained:
    """Parameters with a fresh optimiser state."""
    return Trained(params, optimiser.init(params))


def gradient_step(
    optimiser: optax.GradientTransformation, trained: Trained, loss: Callable[..., tuple[Any, Metrics]], *args: Any
) -> tuple[Trained, Metrics]:
    """One step of gradient descent on ``loss(params, *args) -> (value, metrics)``."""
    grads, metrics = jax.grad(loss, has_aux=True)(trained.params, *args)
    return apply_gradients(optimiser, trained, grads), metrics


def apply_gradients(optimiser: optax.GradientTransformation, trained: Trained, grads: PyTree) -> Trained:
    """One optimiser step with these gradients."""
    updates, opt_state = optimiser.update(grads, trained.opt_state, trained.params)
    return Trained(optax.apply_updates(trained.params, updates), opt_state)


def sgd(
    key: Key,
    optimiser: optax.GradientTransformation,
    trained: Trained,
    loss: Callable[[Any, PyTree], tuple[Any, Metrics]],
    rows: PyTree,
    epochs: int,
    minibatches: int,
    *,
    after_step: Callable[[Any], Any] | None = None,
) -> tuple[Trained, Metrics]:
    """Train for ``epochs`` passes over the rows in shuffled minibatches. Returns the mean of each metric.

    ``after_step`` changes the parameters after each gradient step.
    """
    size = jax.tree.leaves(rows)[0].shape[0]
    check(
        minibatches <= size,
        f"minibatches={minibatches} exceeds the {size} rows to fit. Fit more rows (raise rollouts, or "
        "sac.objective_batch_size if it is set), or ask for fewer minibatches.",
    )
    minibatch_size = size // minibatches

    def step(trained: Trained, batch: PyTree) -> tuple[Trained, Metrics]:
        trained, metrics = gradient_step(optimiser, trained, loss, batch)
        return trained if after_step is None else trained._replace(params=after_step(trained.params)), metrics

    def epoch(trained: Trained, key: Key) -> tuple[Trained, Metrics]:
        order = jax.random.permutation(key, size)[: minibatch_size * minibatches]
        batches = jax.tree.map(lambda x: x[order].reshape(minibatches, minibatch_size, *x.shape[1:]), rows)
        return jax.lax.scan(step, trained, batches)

    trained, metrics = jax.lax.scan(epoch, trained, jax.random.split(key, epochs))
    return trained, jax.tree.map(jnp.mean, metrics)


def minibatch_orders(key: Key, size: int, epochs: int, minibatches: int) -> UInt32[Array, "m n"]:
    """The rows of each minibatch: ``epochs`` passes over ``size`` rows, each shuffled and cut into ``minibatches``.

    The rows that remain after the last full minibatch of an epoch are left out of it.
    """
    rows = size // minibatches
    return shuffled_orders(key, epochs, size)[:, : rows * minibatches].reshape(-1, rows)


def shuffled_orders(key: Key, count: int, size: int) -> UInt32[Array, "c n"]:
    """``count`` random orders of ``size`` rows.

    Each row number is stored below random bits in one 32-bit word, and the words are sorted. This is eight times as
    fast as ``jax.random.permutation``, which sorts pairs, and sorts twice to avoid ties. Here two rows with the same
    random bits keep their order. That happens to a given pair with probability 2^-(32 - log2 size), which does not
    matter for minibatches.
    """
    width = max(size - 1, 1).bit_length()
    if 32 - width < MIN_RANDOM_BITS:
        keys = jax.random.split(key, count)
        return jax.vmap(lambda key: jax.random.permutation(key, size).astype(jnp.uint32))(keys)
    bits = jax.random.bits(key, (count, size), jnp.uint32) >> width << width
    return jax.lax.sort(bits | jnp.arange(size, dtype=jnp.uint32), is_stable=False) & jnp.uint32((1 << width) - 1)

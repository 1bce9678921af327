"""The only place where an optax update is applied."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jaxtyping import PyTree

from edl.types import Metrics


class Trained(NamedTuple):
    """Parameters and the state of their optimiser."""

    params: PyTree
    opt_state: optax.OptState


def start(optimiser: optax.GradientTransformation, params: PyTree) -> Trained:
    """Parameters with a fresh optimiser."""
    return Trained(params, optimiser.init(params))


def descend(
    optimiser: optax.GradientTransformation, trained: Trained, loss: Callable[..., tuple[Any, Metrics]], *args: Any
) -> tuple[Trained, Metrics]:
    """One step down ``loss(params, *args) -> (value, metrics)``."""
    grads, metrics = jax.grad(loss, has_aux=True)(trained.params, *args)
    return follow(optimiser, trained, grads), metrics


def follow(optimiser: optax.GradientTransformation, trained: Trained, grads: PyTree) -> Trained:
    """One step along these gradients."""
    updates, opt_state = optimiser.update(grads, trained.opt_state, trained.params)
    return Trained(optax.apply_updates(trained.params, updates), opt_state)

"""A map of the family of METRA under a constraint, by dual descent: METRA and CSD share the loss, RSD the parameters.

The bound ||phi(s') - phi(s)||^2 <= d(s, s') is kept by a multiplier lambda >= 0, which grows while moves violate it on
average. The parameter is log lambda, so lambda stays positive (`edl.baselines.directions` has the rest of the family).
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.baselines.directions import map_steps, progress
from edl.baselines.model_fitting import Moves, weighted_mean
from edl.nets.mlp import MLP, mlp
from edl.types import Key, Metrics, Scalar


class ConstrainedMap(eqx.Module):
    """A map phi, and log lambda, the multiplier of its constraint."""

    phi: MLP
    log_lambda: Scalar


def constrained_map(key: Key, sizes: tuple[int, ...], first_lambda: float | Scalar) -> ConstrainedMap:
    """An untrained map, and the initial value of the multiplier."""
    return ConstrainedMap(mlp(key, sizes), jnp.log(jnp.asarray(first_lambda, jnp.float32)))


def constrained_loss(
    params: ConstrainedMap,
    rows: Moves,
    directions: Float[Array, "n z"],
    bounds: Float[Array, " n"] | float,
    slack: float | Scalar,
    constraint: Literal["sum", "mean"] = "sum",
) -> tuple[Scalar, Metrics]:
    """L_phi + L_lambda for the constraint ||phi(s') - phi(s)||^2 <= d(s, s'); ``bounds`` are the d(s, s').

        L_phi       = -E[ (phi(s') - phi(s)) . z + lambda min(epsilon, d(s, s') - ||phi(s') - phi(s)||^2) ]
        L_lambda    = log lambda E[ min(epsilon, d(s, s') - ||phi(s') - phi(s)||^2) ]

    ``constraint``: the square of the norm is summed over dimensions, or it is their mean. No parameter has a gradient
    from both terms.
    """
    steps = map_steps(params.phi, rows)
    squares = jnp.sum(steps**2, axis=1)
    slacks = jnp.minimum(slack, bounds - (squares if constraint == "sum" else squares / steps.shape[1]))
    mean_slack = weighted_mean(rows.weight, slacks)
    mean_progress = weighted_mean(rows.weight, jax.vmap(progress)(steps, directions))
    multiplier = jnp.exp(params.log_lambda)
    phi_loss = -mean_progress - jax.lax.stop_gradient(multiplier) * mean_slack
    lambda_loss = params.log_lambda * jax.lax.stop_gradient(mean_slack)
    metrics = {
        "progress": mean_progress,
        "squared_step": weighted_mean(rows.weight, squares),
        "step_length": weighted_mean(rows.weight, jnp.linalg.norm(jax.lax.stop_gradient(steps), axis=1)),
        "lambda": multiplier,
    }
    return phi_loss + lambda_loss, metrics

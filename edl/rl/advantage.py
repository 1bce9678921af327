"""Generalised advantage estimation (Schulman et al., 2016) for episodes that start at a reset."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.types import Scalar


def gae(
    rewards: Float[Array, " t"],
    values: Float[Array, " t1"],
    terminated: Bool[Array, " t"],
    valid: Bool[Array, " t"],
    gamma: float | Scalar,
    lam: float | Scalar,
) -> Float[Array, " t"]:
    """A_t = sum_{l>=0} (gamma lambda)^l delta_{t+l},  delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).

    ``values`` has one more entry than ``rewards``. A truncated episode bootstraps from the state it reached; a
    terminated one does not. Steps after the end are not ``valid`` and contribute zero. So the sum never has to be cut,
    and the whole recursion is one product with a triangular matrix.
    """
    bootstrap = jnp.where(terminated, 0.0, values[1:])
    delta = jnp.where(valid, rewards + gamma * bootstrap - values[:-1], 0.0)
    steps = jnp.arange(rewards.shape[0])
    ahead = steps[:, None] - steps[None, :]
    discount = jnp.where(ahead >= 0, (gamma * lam) ** jnp.maximum(ahead, 0), 0.0)
    return jnp.where(valid, delta @ discount, 0.0)

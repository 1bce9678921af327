"""Matrix products in full float32, squared distances, and nearest points.

On a GPU the default precision of a matrix product rounds its inputs to 10 bits. A network tolerates that. Geometry does
not, because squared distances are small differences of large products.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.config import check
from edl.types import Scalar


def exact_matmul(x: Float[Array, "*a"], y: Float[Array, "*b"]) -> Float[Array, "*c"]:
    """x @ y in full float32 on every device."""
    return jnp.matmul(x, y, precision="highest")


def squared_distances(x: Float[Array, " s"], points: Float[Array, "n s"]) -> Float[Array, " n"]:
    """||x - p_i||^2 for every row p_i of ``points``.

    The sum is over the first axis, column by column: on a CPU it is 40 times as fast as a sum over a short last axis,
    which XLA does not vectorise.
    """
    return jnp.sum((points.T - x[:, None]) ** 2, axis=0)


def mean_nearest(
    state: Float[Array, " s"], points: Float[Array, "p s"], real: Bool[Array, " p"], neighbours: int
) -> Scalar:
    """Mean distance to the nearest of the ``real`` points; infinite if too few are real.

    The number of points is a shape, so a program with too many ``neighbours`` is rejected when it is traced.
    """
    check(
        neighbours <= points.shape[0],
        f"neighbours must be at most the number of points among which they are searched (got {neighbours} neighbours "
        f"and {points.shape[0]} points). Ask for fewer neighbours, or keep more points.",
    )
    squares = jnp.where(real, squared_distances(state, points), jnp.inf)
    negated, _ = jax.lax.top_k(-squares, neighbours)
    return jnp.mean(jnp.sqrt(-negated))

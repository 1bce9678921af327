"""Live metrics of a running explorer: how much of the maze it has covered so far."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import Experience
from edl.envs.layouts import Layout
from edl.evaluate.coverage import BinGrid, bins_of, data_coverage
from edl.runtime.effort import quick_jit


def coverage_so_far(layout: Layout | None, num_seeds: int | None = None) -> Callable[[Any], dict[str, float]]:
    """A function from the state of a running stage to the mean share of the maze that its seeds have covered.

    The state may have more lanes than ``num_seeds``, to fill the devices; they do not count. The function returns
    nothing if the env is not a maze, or if the state holds no experience (an oracle, a dataset).
    """
    if layout is None:
        return lambda state: {}
    bins = bins_of(layout)

    def live_metrics(state: Any) -> dict[str, float]:
        experience = experience_of(state)
        if experience is None:
            return {}
        per_lane = np.asarray(quick_jit(_coverage)(bins, experience))
        return {"data_coverage": float(np.mean(per_lane[:num_seeds]))}

    return live_metrics


def experience_of(state: Any) -> Experience | None:
    """The experience in the state of a running stage, if it holds any."""
    parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, Experience))
    return next((part for part in parts if isinstance(part, Experience)), None)


def _coverage(bins: BinGrid, experience: Experience) -> Float[Array, " lanes"]:
    return jax.vmap(lambda one: data_coverage(bins, one))(experience)

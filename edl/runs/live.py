"""Live metrics of a running explorer: how much of the maze it has covered so far."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from edl.artifacts import Experience
from edl.envs.layouts import Layout
from edl.evaluate.coverage import BinGrid, bins_of, data_coverage
from edl.runtime.effort import quick_jit
from edl.types import Scalar


def coverage_so_far(layout: Layout | None) -> Callable[[Any], dict[str, float]]:
    """A function from the state of a running stage to the share of the maze that its seeds have covered.

    It returns nothing if the env is not a maze, or if the state holds no experience (an oracle, a dataset).
    """
    if layout is None:
        return lambda state: {}
    bins = bins_of(layout)

    def live_metrics(state: Any) -> dict[str, float]:
        parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, Experience))
        experience = next((part for part in parts if isinstance(part, Experience)), None)
        return {} if experience is None else {"data_coverage": float(quick_jit(_mean_coverage)(bins, experience))}

    return live_metrics


def _mean_coverage(bins: BinGrid, experience: Experience) -> Scalar:
    return jnp.mean(jax.vmap(lambda one: data_coverage(bins, one))(experience))

"""What a person watching an explorer wants to see: how much of the world it has covered so far."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from edl.artifacts import Experience
from edl.runtime.effort import quick_jit
from edl.envs.layouts import Layout
from edl.evaluate.coverage import Grid, bins_of, data_coverage
from edl.types import Scalar


def coverage_so_far(layout: Layout | None) -> Callable[[Any], dict[str, float]]:
    """A function from the state of an explorer under way to the share of the maze that its seeds have covered.

    It says nothing where there is no maze, or where the state holds no experience (an oracle, a dataset).
    """
    if layout is None:
        return lambda state: {}
    grid = bins_of(layout)

    def watch(state: Any) -> dict[str, float]:
        parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, Experience))
        experience = next((part for part in parts if isinstance(part, Experience)), None)
        return {} if experience is None else {"data_coverage": float(quick_jit(_mean_coverage)(grid, experience))}

    return watch


def _mean_coverage(grid: Grid, experience: Experience) -> Scalar:
    return jnp.mean(jax.vmap(lambda one: data_coverage(grid, one))(experience))

"""What a person watching an explorer wants to see: how much of the world it has covered so far."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from edl.artifacts import Experience
from edl.envs.layouts import Layout
from edl.evaluate.coverage import bins_of, data_coverage


def coverage_so_far(layout: Layout | None) -> Callable[[Any], dict[str, float]]:
    """A function from the state of an explorer under way to the share of the maze that its seeds have covered.

    It says nothing where there is no maze, or where the state holds no experience (an oracle, a dataset).
    """
    if layout is None:
        return lambda state: {}
    grid = bins_of(layout)
    measure = jax.jit(lambda experience: jnp.mean(jax.vmap(lambda one: data_coverage(grid, one))(experience)))

    def watch(state: Any) -> dict[str, float]:
        parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, Experience))
        experience = next((part for part in parts if isinstance(part, Experience)), None)
        return {} if experience is None else {"data_coverage": float(measure(experience))}

    return watch

"""Physics that diverges ends a run with one clear error.

The positions of a robot that has diverged are NaN (see `edl.envs.mjx.physics`), and so is all that is computed from
them: networks, buffers, results. After every chunk of a program, `check_physics` looks for NaN in what it returned. The
chunk is then dropped. Earlier checkpoints and finished stages are kept.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from edl.envs.host import EnvError
from edl.envs.mjx.env import MjxEnv, MjxMaze


def check_physics(tree: PyTree, result: PyTree, when: str) -> None:
    """Raise an `EnvError` if ``result`` has a NaN and there is a robot in ``tree``. ``when`` says when it was found."""
    robots = robots_in(tree)
    numbers = [leaf for leaf in jax.tree.leaves(result) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    if not robots or not numbers or not bool(_any_nan(numbers)):
        return
    physics = robots[0].physics
    remedies = ["'?divergence=rest'"] if physics.settings.divergence == "error" else []
    remedies += ["'?physics=exact'"] if physics.settings.physics == "fast" else []
    remedies += ["a smaller timestep in the XML"] if physics.name.startswith("mjx:") else []
    for_physics = f" For the physics, use {' or '.join(remedies)}." if remedies else ""
    raise EnvError(
        f"env {physics.name!r} has NaN in its state {when}: its physics diverged, or training did. Earlier checkpoints "
        f"and finished stages are kept.{for_physics} For training, lower the learning rate."
    )


def robots_in(tree: PyTree) -> list[MjxEnv | MjxMaze]:
    """All robots in a tree."""

    def is_robot(node: Any) -> bool:
        return isinstance(node, MjxEnv | MjxMaze)

    return [leaf for leaf in jax.tree.leaves(tree, is_leaf=is_robot) if is_robot(leaf)]


@jax.jit
def _any_nan(arrays: Sequence[Array]) -> Bool[Array, ""]:
    return jnp.any(jnp.stack([jnp.any(jnp.isnan(array)) for array in arrays]))

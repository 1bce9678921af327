"""Two devices at work on one seed: the two cores of a small machine, which its products are too small to be split over.

Both hold the whole state and run the same program. Where the program asks, through the functions here, each does a part
of the work, and they tell each other what came of it. Traced for one device, these functions do all of the work.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PyTree

S = TypeVar("S")
T = TypeVar("T")

AXIS = "pair"
WHOLE = PartitionSpec()
"""The same on both."""


def mesh() -> Mesh | None:
    """Two processor cores, if JAX may use two (see `edl.cores`); a GPU is not shared."""
    devices = jax.devices()
    return Mesh(np.array(devices[:2]), (AXIS,)) if len(devices) > 1 and devices[0].platform == "cpu" else None


def together(mesh: Mesh, function: Callable[..., T]) -> Callable[..., T]:
    """A function that both run, on the same arguments, with the same result."""
    return jax.shard_map(function, mesh=mesh, in_specs=WHOLE, out_specs=WHOLE, check_vma=False)


def paired() -> bool:
    """Whether what is being traced is for two devices."""
    try:
        return jax.lax.axis_size(AXIS) == 2
    except NameError:
        return False


def apart(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """Two things that have nothing to do with each other: each of the two does one. Both get to know both results."""
    if not paired():
        return first(), second()
    first, second = jax.jit(first), jax.jit(second)  # so that they are traced once
    shapes = jax.eval_shape(first), jax.eval_shape(second)
    nothing = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    done = jax.lax.cond(jax.lax.axis_index(AXIS) == 0, lambda: (first(), nothing[1]), lambda: (nothing[0], second()))
    both = _both(jax.tree.map(lambda x: x[None], done))
    return jax.tree.map(lambda x: x[0], both[0]), jax.tree.map(lambda x: x[1], both[1])


def mapped(function: Callable[[PyTree], T], items: PyTree) -> T:
    """``jax.vmap(function)(items)``, half of it by each."""
    size = jax.tree.leaves(items)[0].shape[0]
    if not paired() or size % 2:
        return jax.vmap(function)(items)
    begin = jax.lax.axis_index(AXIS) * (size // 2)
    mine = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, begin, size // 2), items)
    return _both(jax.vmap(function)(mine))


def _both(halves: T) -> T:
    """The halves of both, one after the other, told in one message: each costs as much as waiting for the other."""
    leaves, tree = jax.tree.flatten(halves)
    words = [leaf if leaf.dtype == bool else jax.lax.bitcast_convert_type(leaf, jnp.uint32) for leaf in leaves]
    rows = [word.reshape(word.shape[0], -1).astype(jnp.uint32) for word in words]
    told = jax.lax.all_gather(jnp.concatenate(rows, axis=1), AXIS, tiled=True)
    parts = jnp.split(told, np.cumsum([row.shape[1] for row in rows])[:-1], axis=1)

    def back(part: Array, leaf: Array) -> Array:
        part = part.reshape(-1, *leaf.shape[1:])
        return part.astype(bool) if leaf.dtype == bool else jax.lax.bitcast_convert_type(part, leaf.dtype)

    return jax.tree.unflatten(tree, map(back, parts, leaves))

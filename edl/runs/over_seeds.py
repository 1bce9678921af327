"""Many seeds of one function: under vmap, and dealt out to the devices of a mesh."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree


WHOLE = PartitionSpec()

LANES = PartitionSpec("lanes")
"""Dealt out to the devices of a mesh along the leading axis (`WHOLE`: the same on each)."""


def on_devices(mesh: Mesh | None, tree: PyTree, per_seed: bool = True) -> PyTree:
    """Arrays, or their shapes, where they are needed: if there is a seed to a row, spread over the lanes."""
    if mesh is None:
        return tree
    place = NamedSharding(mesh, spec(mesh, per_seed))

    def put(leaf: Any) -> Any:
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)
        return jax.device_put(leaf, place)

    return jax.tree.map(put, tree)


def spec(mesh: Mesh, per_seed: bool) -> PartitionSpec:
    """Whether there is a part for each device, or all for each."""
    return LANES if per_seed and LANES[0] in mesh.axis_names else WHOLE


def one_copy(mesh: Mesh | None, result: PyTree) -> PyTree:
    """Of what every device of a mesh has all of (a pair's results), one copy will do."""
    if mesh is None or spec(mesh, True) != WHOLE:
        return result
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), result)


def over_seeds(
    one: Callable, per_seed: tuple[bool, ...], seeds: int, mesh: Mesh | None, inputs: tuple, *batched: PyTree
) -> PyTree:
    """Map over the seeds. A single seed goes without: under vmap, both sides of each branch would be computed."""
    if mesh is not None:
        dealt = spec(mesh, True)
        local = functools.partial(over_seeds, one, per_seed, seeds if dealt == WHOLE else seeds // mesh.size, None)
        specs = (tuple(spec(mesh, each) for each in per_seed), *[dealt] * len(batched))
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=dealt, check_vma=False)(inputs, *batched)
    axes = tuple(0 if each else None for each in per_seed)
    if seeds > 1:
        return jax.vmap(one, in_axes=(axes, *[0] * len(batched)), axis_size=seeds)(inputs, *batched)
    alone = tuple(_first(x) if each else x for x, each in zip(inputs, per_seed, strict=True))
    return jax.tree.map(lambda x: jnp.asarray(x)[None], one(alone, *map(_first, batched)))


def _first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x[0], tree)

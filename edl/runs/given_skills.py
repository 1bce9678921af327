"""The skills that a user gave to a run, read back from its folder: the arrays of the file tell which networks."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from edl.artifacts import SkillModel
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser
from edl.runs import tensors
from edl.runs.store import Folder


def load_skills(folder: Folder, file: str, lanes: int, size: int, skeleton: Callable[[], Any]) -> SkillModel:
    """The skills in the file of stage 2. Without a discoverer there are no shapes to expect: a user gave the skills."""
    shapes = skeleton()
    if shapes is not None:
        return folder.load(file, shapes, finite=False)  # `load_artifact` checks the seeds that did not fail
    return given_skills(tensors.arrays_of(folder.read(file), str(folder.place(file))))


def given_skills(arrays: Mapping[str, np.ndarray]) -> SkillModel:
    """The `SkillModel` of these arrays, which have a leading axis of seeds."""
    seeds = [_of_one_seed({name: jnp.asarray(x[i]) for name, x in arrays.items()}) for i in range(len(arrays["codes"]))]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)


def _of_one_seed(read: Mapping[str, Array]) -> SkillModel:
    """The networks of all discoverers have ReLU activations."""
    return SkillModel(
        codes=read["codes"],
        goals=read["goals"],
        decoded=read["decoded"],
        usage=read["usage"],
        encoder=_network(read, "encoder"),
        decoder=_network(read, "decoder"),
        normaliser=Normaliser(read["normaliser.mean"], read["normaliser.scale"]),
    )


def _network(arrays: Mapping, name: str) -> MLP | None:
    count = sum(each.startswith(f"{name}.weights.") for each in arrays)
    if not count:
        return None
    weights, biases = ([arrays[f"{name}.{part}.{i}"] for i in range(count)] for part in ("weights", "biases"))
    return MLP(weights, biases)

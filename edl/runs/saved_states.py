"""Load the states of a run. Their shapes come from the file itself, because a dataset may be gone."""

from collections.abc import Callable

import jax.numpy as jnp

from edl.artifacts import Experience, States
from edl.runs import tensors
from edl.runs.errors import RetryableError
from edl.runs.store import Folder


def load_states(folder: Folder, file: str, lanes: int, size: int, skeleton: Callable[[], States]) -> States:
    """The states of ``lanes`` seeds with ``size`` features. ``skeleton`` is only called for an explorer's policy."""
    whose = str(folder.place(file))
    arrays = tensors.arrays_of(folder.read(file), whose)
    samples, parts = arrays.get("samples"), ("paths", "actions", "lengths")
    fits = samples is not None and samples.ndim == 3 and samples.shape[::2] == (lanes, size)
    of_policy = {name: array for name, array in arrays.items() if name.startswith("policy.")}
    if not fits or arrays.keys() - {"samples", *(f"experience.{part}" for part in parts), *of_policy}:
        raise RetryableError(f"{whose} does not belong to this run's config.json. Restore both from a copy.")
    found = [arrays[f"experience.{part}"] for part in parts if f"experience.{part}" in arrays]
    policy, sampled = None, False
    if of_policy:
        whole = skeleton()
        policy = tensors.rebuild(of_policy, {"policy": whole.policy}, whose, finite=False)["policy"]
        sampled = whole.experience is not None and whole.experience.sampled  # only explorers with a policy sample
    experience = None
    if len(found) == len(parts):
        paths, actions, lengths = (jnp.asarray(array) for array in found)
        experience = Experience(paths, actions, lengths, sampled)
    return States(jnp.asarray(samples), experience, policy)

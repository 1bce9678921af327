"""Minari datasets (https://minari.farama.org) as states: the observations of every episode, in the order of recording.

Only datasets on this machine are read. Nothing is downloaded.
"""

import re
import warnings
from types import ModuleType

import numpy as np
from jaxtyping import Float

from edl.config import ConfigError
from edl.explore.dataset import checked
from edl.explore.region import Predicate, check_not_empty, inside

ID = re.compile(r"(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*-v\d+", re.ASCII)
"""``namespace/name-v0``. The namespace is optional, and the version ends it: no file of ours does."""
SHOWN = 20
"""How many local datasets a message lists."""


def is_minari_id(name: str) -> bool:
    """Whether ``dataset:NAME`` means a Minari dataset and not a file."""
    return ID.fullmatch(name) is not None


def load_minari(dataset_id: str, size: int | None = None, region: Predicate | None = None) -> Float[np.ndarray, "n s"]:
    """All observations of a local dataset, as states; as in `load_dataset`, checked, and those in the region kept."""
    minari = _import_minari(dataset_id)
    if not is_minari_id(dataset_id):
        raise ConfigError(f"Minari dataset {dataset_id!r}: an id such as 'namespace/name-v0' is wanted. Check the id.")
    try:
        data = minari.load_dataset(dataset_id, download=False)
        shape, kind = data.observation_space.shape, type(data.observation_space).__name__
        if kind != "Box" or len(shape) != 1:
            raise ConfigError(
                f"Minari dataset {dataset_id!r} observes a {kind} of shape {shape}: a Box of one axis is wanted. "
                "Save the part of its observations that skills are about as .npz."
            )
        rows = [np.asarray(episode.observations) for episode in data.iterate_episodes()]
    except ConfigError:
        raise
    except FileNotFoundError as error:
        raise ConfigError(_unknown(minari, dataset_id)) from error
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"Minari dataset {dataset_id!r} cannot be read ({type(error).__name__}: {error}): "
            f"an undamaged one is wanted. Download it again: minari download {dataset_id}"
        ) from error
    states = checked(np.concatenate([*rows, np.zeros((0, *shape), np.float32)]), f"Minari dataset {dataset_id!r}", size)
    check_not_empty(region, states, f"the {len(states)} states of {dataset_id!r}")
    return states[inside(region, states)]


def _import_minari(dataset_id: str) -> ModuleType:
    try:
        import minari
    except ImportError as error:
        raise ConfigError(
            f"dataset {dataset_id!r} needs minari, which is not installed: pip install 'edl[data]', or give a file."
        ) from error
    return minari


def _unknown(minari: ModuleType, dataset_id: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other datasets, which are not ours to mend
        local = list(minari.list_local_datasets())
    listed = ", ".join(local[:SHOWN]) + (f" and {len(local) - SHOWN} more" if len(local) > SHOWN else "")
    return (
        f"no Minari dataset {dataset_id!r} on this machine: one of those is wanted ({listed or 'there are none'}). "
        f"Check the id, or download it first: minari download {dataset_id}"
    )

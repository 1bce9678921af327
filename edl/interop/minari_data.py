"""Minari datasets (https://minari.farama.org) as states: the observations of all episodes, in the order of recording.

Only local datasets are read. Nothing is downloaded.
"""

import re
import warnings
from types import ModuleType

import numpy as np
from jaxtyping import Float

from edl.artifacts import States
from edl.config import ConfigError
from edl.envs.base import Discrete, Env
from edl.explore.dataset import as_states, states_with_experience
from edl.explore.region import Predicate, check_not_empty, inside

ID = re.compile(r"(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*-v\d+", re.ASCII)
"""``namespace/name-v0``. The namespace is optional. No file type that we read ends in a version."""
MAX_LISTED = 20
"""Maximum number of local datasets in an error message."""


def is_minari_id(name: str) -> bool:
    """Whether ``dataset:NAME`` names a Minari dataset and not a file."""
    return ID.fullmatch(name) is not None


def load_minari(dataset_id: str, size: int | None = None, region: Predicate | None = None) -> Float[np.ndarray, "n s"]:
    """The observations of a local dataset that lie in the region, checked as in `load_dataset`."""
    episodes, shape = _read_episodes(dataset_id)
    observations = np.concatenate([*(each for each, _ in episodes), np.zeros((0, *shape), np.float32)])
    states = as_states(observations, f"Minari dataset {dataset_id!r}", size)
    check_not_empty(region, states, f"the {len(states)} states of {dataset_id!r}")
    return states[inside(region, states)]


def load_minari_experience(dataset_id: str, env: Env) -> States:
    """The episodes of a local dataset, with their actions."""
    source, space = f"Minari dataset {dataset_id!r}", env.action_space
    size = None if isinstance(space, Discrete) else space.size
    episodes, _ = _read_episodes(dataset_id)
    checked = [
        (as_states(states, source, env.feature_size), as_states(actions, f"the actions of {source}", size))
        for states, actions in episodes
    ]
    return states_with_experience(checked, source)


def _read_episodes(dataset_id: str) -> tuple[list[tuple[np.ndarray, np.ndarray]], tuple[int, ...]]:
    """Observations and actions of all episodes of a local dataset, and the shape of an observation."""
    minari = _import_minari(dataset_id)
    if not is_minari_id(dataset_id):
        raise ConfigError(f"the id of a Minari dataset must be like 'namespace/name-v0' (got {dataset_id!r}).")
    try:
        data = minari.load_dataset(dataset_id, download=False)
        shape, kind = data.observation_space.shape, type(data.observation_space).__name__
        if kind != "Box" or len(shape) != 1:
            raise ConfigError(
                f"observations of Minari dataset {dataset_id!r} must be a Box with one axis "
                f"(got a {kind} of shape {shape}). Save the features that skills are about as .npz."
            )
        episodes = [(np.asarray(each.observations), np.asarray(each.actions)) for each in data.iterate_episodes()]
    except ConfigError:
        raise
    except FileNotFoundError as error:
        raise ConfigError(_unknown(minari, dataset_id)) from error
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"Minari dataset {dataset_id!r} cannot be read ({type(error).__name__}: {error}). "
            f"If it is damaged, download it again: minari download {dataset_id}"
        ) from error
    return episodes, shape


def _import_minari(dataset_id: str) -> ModuleType:
    try:
        import minari
    except ImportError as error:
        raise ConfigError(
            f"dataset {dataset_id!r} needs minari, which is not installed. In a checkout, "
            "pip install '.[data]'. Or use a file."
        ) from error
    return minari


def _unknown(minari: ModuleType, dataset_id: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they concern other datasets
        local = list(minari.list_local_datasets())
    listed = ", ".join(local[:MAX_LISTED]) + (f" and {len(local) - MAX_LISTED} more" if len(local) > MAX_LISTED else "")
    return (
        f"no local Minari dataset {dataset_id!r}. Available: {listed or 'none'}. "
        f"Check the id, or download it first: minari download {dataset_id}"
    )

"""The states that a discoverer gets: checks, and the subset that it learns from."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import States
from edl.config import check, check_numbers
from edl.types import Key


def subsample(key: Key, states: States, num_samples: int) -> Float[Array, "n s"]:
    """``num_samples`` different rows of the explored states, or all of them if there are not more.

    The states are cut into ``num_samples`` stretches of equal length, and one row is drawn from each, so that states
    that were explored early and late are equally represented.
    """
    available = states.samples.shape[0]
    if available <= num_samples:
        return states.samples
    borders = np.arange(num_samples + 1) * available // num_samples
    offsets = jax.random.uniform(key, (num_samples,)) * np.diff(borders)
    return states.samples[borders[:-1] + jnp.floor(offsets).astype(jnp.int32)]


def check_enough(config: Any, states: States) -> None:
    """Reject more skills than states. Shapes are static, so discoverers call this when they build their program."""
    available = states.samples.shape[-2]
    check(
        config.num_skills <= available,
        f"num_skills={config.num_skills} exceeds the {available} states explored: "
        "explore longer or ask for fewer skills.",
    )
    check(
        config.num_skills <= config.num_samples,
        f"num_skills={config.num_skills} exceeds num_samples={config.num_samples}: "
        "raise num_samples of the discoverer (--discoverer.num-samples), or ask for fewer skills.",
    )


def check_states(config: Any, samples: Float[np.ndarray, "*seeds n s"]) -> None:
    """Raise a `ConfigError` if a discoverer cannot run with ``config`` on the samples of one seed or of many seeds.

    This reads the values and therefore runs on the host, before stage 2.
    """
    check_numbers(config)
    samples = np.asarray(samples)
    for seed in samples[None] if samples.ndim == 2 else samples:
        check_finite(seed)
        check_distinct(getattr(config, "num_skills", 1), seed)  # a user's method may have no such setting


def check_finite(samples: Float[np.ndarray, "n s"]) -> None:
    """Reject an empty array, and states with NaN or infinity."""
    check(
        samples.size > 0,
        f"the explored states must have at least one row and one column (got shape {samples.shape}). "
        "Explore longer, or use a dataset with one row per state.",
    )
    bad = ~np.isfinite(samples).all(axis=-1)
    check(
        not bad.any(),
        f"{bad.sum()} of the {len(samples)} states explored contain NaN or infinity, the first in row {bad.argmax()}. "
        "Remove those rows from the dataset, or fix the env that produced them.",
    )


def check_distinct(num_skills: int, samples: Float[np.ndarray, "n s"]) -> None:
    """Reject more skills than different states: two skills would share a goal."""
    # The first rows are enough for most runs. Sorting all of a large dataset is needed only if they are not.
    if len(np.unique(samples[: 4 * num_skills], axis=0)) >= num_skills:
        return
    distinct = len(np.unique(samples, axis=0))
    check(
        num_skills <= distinct,
        f"num_skills={num_skills} exceeds the {distinct} different states explored: "
        "explore longer or ask for fewer skills.",
    )

"""What every discoverer does with the states it is given: check them at the edge, and draw the ones it learns from."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import States
from edl.config import MAY_BE_ZERO, check
from edl.types import Key


def subsample(key: Key, states: States, num_samples: int) -> Float[Array, "n s"]:
    """``num_samples`` different rows of the states explored, or all of them where there are no more.

    One row from each of so many stretches of equal length, so that what was explored early and late has its share.
    """
    available = states.samples.shape[0]
    if available <= num_samples:
        return states.samples
    borders = np.arange(num_samples + 1) * available // num_samples
    offsets = jax.random.uniform(key, (num_samples,)) * np.diff(borders)
    return states.samples[borders[:-1] + jnp.floor(offsets).astype(jnp.int32)]


def check_discover(config: Any, states: States) -> None:
    """Raise a `ConfigError` if ``config`` cannot be run on ``states``, which may be those of many seeds."""
    check_numbers(config)
    samples = np.asarray(states.samples)
    if samples.ndim == 2:
        samples = samples[None]
    for seed in samples:
        check_samples(seed)
        check_enough(config.num_skills, min(config.num_samples, len(seed)), seed)


def check_numbers(config: Any) -> None:
    """Counts are at least one (or zero, where that means none); rates and weights are finite and not negative."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        got = f"{field.name}={value}"
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and field.type in (int, "int"):
            least = 0 if field.name in MAY_BE_ZERO else 1
            check(value >= least, got, f"wanted at least {least}", f"Set {field.name} to {least} or more.")
        else:
            fine = bool(np.all(np.isfinite(value)) and np.all(np.asarray(value) >= 0))
            check(fine, got, "wanted a finite number that is not negative", f"Set {field.name} to zero or more.")


def check_samples(samples: np.ndarray) -> None:
    """States are a table of finite numbers."""
    check(
        samples.ndim == 2 and samples.size > 0,
        f"states of shape {samples.shape}",
        "wanted one row per state and at least one column",
        "Explore longer, or give a dataset with one row per state.",
    )
    bad = ~np.isfinite(samples).all(axis=-1)
    check(
        not bad.any(),
        f"{bad.sum()} of the {len(samples)} states explored hold NaN or infinity, the first in row {bad.argmax()}",
        "wanted finite numbers",
        "Drop those rows from the dataset, or repair the world that made them.",
    )


def check_enough(num_skills: int, available: int, samples: np.ndarray) -> None:
    """There is a state for every skill, and no two skills have to share one."""
    check(
        num_skills <= available,
        f"num_skills={num_skills} exceeds the {available} states explored",
        "wanted at least one state for every skill",
        "Explore longer, raise num_samples, or ask for fewer skills.",
    )
    # Most runs are through after a few rows: sorting all of a large dataset is left to those that may fail.
    if len(np.unique(samples[: 4 * num_skills], axis=0)) >= num_skills:
        return
    distinct = len(np.unique(samples, axis=0))
    check(
        num_skills <= distinct,
        f"num_skills={num_skills} exceeds the {distinct} different states explored",
        "wanted at least one state for every skill",
        "Explore longer or ask for fewer skills.",
    )

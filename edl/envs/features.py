"""Selects the features of an env: the part of an observation that skills are about."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.config import ConfigError

Features = tuple[int, ...] | Callable[[Float[Array, " o"]], Float[Array, " s"]]
"""Dimensions of the observation, or a function of it."""


def select_features(features: Features, observation: Float[Array, " o"]) -> Float[Array, " s"]:
    """The features of one observation."""
    return features(observation) if callable(features) else observation[jnp.array(features, jnp.int32)]


def parse_features(features: str | Features | None, size: int) -> Features:
    """``"0,1"`` as dimensions, and None as all ``size`` of them."""
    if features is None or callable(features):
        return tuple(range(size)) if features is None else features
    try:
        dims = tuple(int(part) for part in (features.split(",") if isinstance(features, str) else features))
    except (TypeError, ValueError):
        dims = ()
    if not dims or len(set(dims)) != len(dims) or not all(0 <= dim < size for dim in dims):
        raise ConfigError(
            f"features must be different dimensions of the observation, from 0 to {size - 1} (got {features!r}). "
            "Change --features, e.g. to '0,1'."
        )
    return dims


def count_features(features: Features, size: int) -> int:
    """The number of features of an observation of ``size`` numbers."""
    if not callable(features):
        return len(features)
    try:
        shape = jax.eval_shape(features, jax.ShapeDtypeStruct((size,), jnp.float32)).shape
    except Exception as error:
        raise ConfigError(
            "features must be a function of one observation, written with jax.numpy "
            f"(got {features!r}, which fails on {size} numbers: {type(error).__name__}: {error}). "
            "For example: lambda observation: observation[:2]."
        ) from error
    if len(shape) != 1:
        raise ConfigError(
            f"features must return a vector (got {features!r}, which returns an array of shape {shape}). "
            "Flatten its result."
        )
    return shape[0]

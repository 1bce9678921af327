"""An oracle that draws uniformly from all valid states, as in the paper: exploration taken for granted."""

import jax
import jax.numpy as jnp

from edl.artifacts import States
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.explore.region import Predicate
from edl.program import Program, instant
from edl.types import Key

OVERSAMPLING = 16
"""A region is filled by rejection from this many times the samples asked for."""


@config
class OracleConfig:
    """How many states to ask for."""

    num_samples: int = 8192
    region: Predicate | None = None


def oracle(env: Env, config: OracleConfig) -> Program[States, States]:
    """Uniform samples over the world (or over a region of it). Only worlds that have ``sample_states`` offer one."""
    sample_states = getattr(env, "sample_states", None)
    if sample_states is None:
        raise ConfigError(
            f"explore=oracle on {type(env).__name__}: wanted a world that can draw its own states. "
            "Use another explorer, e.g. frontier, or a dataset."
        )

    def make(key: Key) -> States:
        if config.region is None:
            return States(sample_states(key, config.num_samples))
        states = sample_states(key, OVERSAMPLING * config.num_samples)
        inside = jax.vmap(config.region)(states)
        order = jnp.argsort(~inside, stable=True)
        # Cycling through those inside keeps the count when a region is smaller than the oversampling can fill.
        rows = jnp.arange(config.num_samples) % jnp.maximum(jnp.sum(inside), 1)
        return States(states[order[rows]])

    return instant(make)

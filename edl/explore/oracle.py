"""The paper's oracle: uniform samples of all valid states of the env, without any exploration."""

import jax
import jax.numpy as jnp

from edl.artifacts import States
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.explore.region import Predicate
from edl.program import Program, one_shot
from edl.types import Key

OVERSAMPLING = 16
"""Rejection sampling in a region draws this many times ``num_samples``."""


@config
class OracleConfig:
    """Settings of the oracle."""

    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


def oracle(env: Env, config: OracleConfig) -> Program[States, States]:
    """Uniform samples over the env or over a region of it. The env must have a method ``sample_states``."""
    sample_states = getattr(env, "sample_states", None)
    if sample_states is None:
        raise ConfigError(
            f"explore=oracle needs an env with sample_states (got {type(env).__name__}). "
            "Use another explorer, for example frontier, or a dataset."
        )

    def sample(key: Key) -> States:
        if config.region is None:
            return States(sample_states(key, config.num_samples))
        states = sample_states(key, OVERSAMPLING * config.num_samples)
        inside = jax.vmap(config.region)(states)
        order = jnp.argsort(~inside, stable=True)
        # If fewer than num_samples draws are inside, they are repeated.
        rows = jnp.arange(config.num_samples) % jnp.maximum(jnp.sum(inside), 1)
        return States(states[order[rows]])

    return one_shot(sample)

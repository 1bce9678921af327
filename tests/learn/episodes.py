"""Episodes made by hand."""

import jax.numpy as jnp

from edl.envs.rollout import Episode, Skill


def episode(path, goal=None, *, rival=None, length=None):
    """An episode along ``path``. The time limit ends it after ``length`` steps (default: all). The rest is invalid."""
    features = jnp.asarray(path, jnp.float32)
    steps = features.shape[0] - 1
    length = steps if length is None else length
    return Episode(
        observations=features,
        features=features,
        actions=jnp.zeros((steps, 2)),
        terminated=jnp.zeros(steps, bool),
        truncated=jnp.arange(steps) == length - 1,
        valid=jnp.arange(steps) < length,
        skill=Skill(jnp.zeros(1), jnp.int32(0), None if goal is None else jnp.asarray(goal, jnp.float32)),
        rival=None if rival is None else jnp.asarray(rival, jnp.float32),
    )

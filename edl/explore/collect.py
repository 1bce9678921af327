"""Shared by the explorers that act: recording episodes, and drawing samples of p(s) from the record."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import Experience, States
from edl.envs.rollout import Episode
from edl.explore.region import Predicate
from edl.types import Key


def record(experience: Experience, episodes: Episode, at: Int[Array, ""]) -> Experience:
    """Write a batch of episodes into the rows that start at ``at``."""

    def put(old: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), at, axis=0)

    return Experience(
        paths=put(experience.paths, episodes.features),
        actions=put(experience.actions, episodes.actions),
        lengths=put(experience.lengths, jnp.sum(episodes.valid, axis=1)),
    )


def visited_states(experience: Experience) -> tuple[Float[Array, "n s"], Float[Array, " n"]]:
    """The states of all episodes in one array, and 1 for each state that was visited or 0 for padding."""
    episodes, states, size = experience.paths.shape
    real = (jnp.arange(states) <= experience.lengths[:, None]) & (experience.lengths[:, None] > 0)
    return experience.paths.reshape(episodes * states, size), real.reshape(-1).astype(jnp.float32)


def draw_states(
    key: Key,
    experience: Experience,
    weights: Float[Array, " n"] | None,
    num_samples: int,
    region: Predicate | None = None,
) -> States:
    """Draw samples of p(s): visited states in the region, in proportion to ``weights`` (systematic resampling).

    Without ``weights``, every visit has the same weight.
    """
    states, real = visited_states(experience)
    weights = real if weights is None else weights * real
    if region is not None:
        weights = weights * jax.vmap(region)(states)
    order_key, tick_key = jax.random.split(key)
    order = jax.random.permutation(order_key, states.shape[0])
    weights = weights[order]
    # A parallel cumulative sum is not monotone after rounding: cummax keeps rows without weight from being drawn.
    edges = jax.lax.cummax(jnp.where(weights > 0, jnp.cumsum(weights), -jnp.inf))
    ticks = (jnp.arange(num_samples) + jax.random.uniform(tick_key)) / num_samples * edges[-1]
    chosen = order[jnp.searchsorted(edges, ticks)]
    return States(samples=states[chosen], experience=experience)

"""Shared by the explorers that act: recording episodes, and drawing samples of p(s) from the record.

`record` keeps all episodes. An explorer that plays too many for that keeps a random choice of them (`EpisodeSample`).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, States, empty_experience
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.region import Predicate
from edl.nets.cells import TABLE_SIZE, cell_of
from edl.rl.replay import draw_places
from edl.types import Key, Scalar


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
    """Draw samples of p(s): visited states in the region, in proportion to ``weights``; see `resample`.

    Without ``weights``, every visit has the same weight.
    """
    states, real = visited_states(experience)
    weights = real if weights is None else weights * real
    if region is not None:
        weights = weights * jax.vmap(region)(states)
    return States(samples=states[resample(key, weights, num_samples)], experience=experience)


def flat_weights(states: Float[Array, "n s"], real: Float[Array, " n"], side: float | Scalar) -> Float[Array, " n"]:
    """Weights under which p(s) is uniform over the visited cells: 1 / visits of the cell of each state.

    The visits are those of these very states, the first ones of all episodes included. ``real`` is 0 for padding.
    """
    cells = jax.vmap(lambda state: cell_of(state, side))(states)
    visits = jnp.zeros(TABLE_SIZE).at[cells].add(real)
    return 1 / jnp.maximum(visits[cells], 1.0)


def resample(key: Key, weights: Float[Array, " n"], num_samples: int) -> Int[Array, " k"]:
    """Draw row numbers in proportion to ``weights`` (systematic resampling)."""
    order_key, tick_key = jax.random.split(key)
    order = jax.random.permutation(order_key, weights.shape[0])
    weights = weights[order]
    # A parallel cumulative sum is not monotone after rounding: cummax keeps rows without weight from being drawn.
    edges = jax.lax.cummax(jnp.where(weights > 0, jnp.cumsum(weights), -jnp.inf))
    ticks = (jnp.arange(num_samples) + jax.random.uniform(tick_key)) / num_samples * edges[-1]
    return order[jnp.searchsorted(edges, ticks)]


def draw_visited(key: Key, experience: Experience, count: int) -> Float[Array, "n s"]:
    """Draw ``count`` of the visited states, all with the same probability."""
    num_states = jnp.where(experience.lengths > 0, experience.lengths + 1, 0)
    return experience.paths[*draw_places(key, jnp.cumsum(num_states), count)]


class EpisodeSample(NamedTuple):
    """A uniform sample of all episodes so far, in rows of fixed number.

    Batches hold whole episodes or parts of episodes. Row i of a batch (lane i) continues the episode of row i of the
    batch before if that episode has not ended and the code of the skill is the same. The code tells episodes apart that
    PPO cuts short, so codes must be continuous.
    """

    experience: Experience
    numbers: Int[Array, " e"]
    """The number of the episode in each row, in the order in which episodes began; -1 if the row is empty."""
    began: Int[Array, ""]
    """Number of episodes that have begun."""
    lane_numbers: Int[Array, " l"]
    """The number of the last episode of each lane."""
    lane_rows: Int[Array, " l"]
    """The row of that episode; the number of rows if it is not recorded."""
    lane_codes: Float[Array, "l z"]
    """The code of its skill."""
    ended: Bool[Array, " l"]
    """Whether it has ended."""

    def in_order(self) -> Experience:
        """The recorded episodes in the order in which they began; empty rows are last."""
        last = jnp.iinfo(jnp.int32).max
        order = jnp.argsort(jnp.where(self.numbers >= 0, self.numbers, last))
        return jax.tree.map(lambda x: x[order], self.experience)


def empty_sample(env: Env, episodes: int, lanes: int, code_size: int) -> EpisodeSample:
    """Room for ``episodes`` episodes, played in batches of ``lanes`` episodes or parts of episodes."""
    return EpisodeSample(
        experience=empty_experience(env, episodes),
        numbers=jnp.full(episodes, -1),
        began=jnp.int32(0),
        lane_numbers=jnp.full(lanes, -1),
        lane_rows=jnp.full(lanes, episodes),
        lane_codes=jnp.zeros((lanes, code_size)),
        ended=jnp.ones(lanes, bool),
    )


def record_sample(key: Key, sample: EpisodeSample, episodes: Episode) -> EpisodeSample:
    """Add a batch of episodes or parts. Whether an episode is recorded is decided when it begins."""
    capacity = sample.numbers.shape[0]
    played = jnp.sum(episodes.valid, axis=1)
    begins = sample.ended | jnp.any(sample.lane_codes != episodes.skill.code, axis=1)
    numbers = jnp.where(begins, sample.began + jnp.cumsum(begins) - 1, sample.lane_numbers)
    rows = jnp.where(begins, reservoir_rows(key, numbers, capacity), sample.lane_rows)
    row_numbers = sample.numbers.at[jnp.where(begins, rows, capacity)].max(numbers, mode="drop")
    # Of two episodes that got the same row, the later one keeps it.
    rows = jnp.where(row_numbers.at[rows].get(mode="fill", fill_value=-1) == numbers, rows, capacity)
    recorded = sample.experience
    recorded = eqx.tree_at(lambda e: e.lengths, recorded, jnp.where(row_numbers > sample.numbers, 0, recorded.lengths))
    return EpisodeSample(
        experience=extend_rows(recorded, rows, episodes, played),
        numbers=row_numbers,
        began=sample.began + jnp.sum(begins),
        lane_numbers=numbers,
        lane_rows=rows,
        lane_codes=episodes.skill.code,
        ended=jax.vmap(lambda episode: episode.ended)(episodes),
    )


def extend_rows(
    experience: Experience, rows: Int[Array, " l"], episodes: Episode, played: Int[Array, " l"]
) -> Experience:
    """Append the first ``played`` (at least one) steps of each lane to its row, whose rest repeats the last of them."""
    before = experience.lengths.at[rows].get(mode="fill", fill_value=0)

    def extend(old: Array, new: Array, last: Int[Array, " l"]) -> Array:
        times = jnp.arange(old.shape[1]) - before[:, None]
        appended = jax.vmap(lambda lane, time: lane[time])(new, jnp.clip(times, 0, last[:, None]))
        earlier = old.at[rows].get(mode="fill", fill_value=0)
        is_new = (times >= 0).reshape(*times.shape, *(1,) * (old.ndim - 2))
        return old.at[rows].set(jnp.where(is_new, appended, earlier), mode="drop")

    return Experience(
        paths=extend(experience.paths, episodes.features, played),
        actions=extend(experience.actions, episodes.actions, played - 1),
        lengths=experience.lengths.at[rows].add(played, mode="drop"),
    )


def reservoir_rows(key: Key, numbers: Int[Array, " n"], size: int) -> Int[Array, " n"]:
    """Reservoir sampling (Vitter, 1985, algorithm R): item i of all goes to row j ~ U{0..i}, if there is such a row.

    The first ``size`` items fill the rows in order.
    """
    random_row = jnp.floor(jax.random.uniform(key, numbers.shape) * (numbers + 1)).astype(jnp.int32)
    return jnp.where(numbers < size, numbers, random_row)

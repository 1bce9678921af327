"""Go-Explore (Ecoffet et al., 2019, 2021), phase 1: restore a state from an archive of cells, and explore from there.

Each episode picks a cell with probability ~ 1 / sqrt(visits + 1), restores the archived env state in it, and takes
persistent random actions. States in new cells are added to the archive. Returning to a cell costs no env steps, because
every pure-JAX env can be restored from its state. `frontier` does not rely on that: it walks back.

p(s) is uniform over the cells: visited states are drawn with weights 1 / visits of their cell. The recorded paths begin
at the restored states, not at resets.

Departs from the paper: actions are repeated with probability 0.5 instead of 0.95, because a step here is as long as
many frames of a game, and an agent that repeats it ends up at a wall; a cell keeps the first state found in it instead
of the one with the shortest path, because no policy is trained on these paths (phase 2); and the first `NUM_RESETS`
episodes and one of each batch begin at a reset, because an env may have many start states.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.artifacts import NUM_RESETS, Experience, States, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.collect import draw_states, flat_weights, record, visited_states
from edl.explore.random_walk import random_episode
from edl.explore.region import Predicate
from edl.graph.landmarks import typical_move
from edl.nets.cells import TABLE_SIZE, cell_of
from edl.program import Program
from edl.types import Key, Metrics


@config
class GoExploreConfig:
    """Settings of Go-Explore: 100,000 steps by default in an env with 50 steps per episode."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration."""
    cell: float = 0.5
    """Side of a cell, in typical moves of the first iteration."""
    cells: int = 16384
    """Maximum number of cells in the archive."""
    persistence: float = 0.5
    """Probability that an action is repeated."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class Archive(NamedTuple):
    """Cells in the order in which they were found, with one env state per cell."""

    cells: Int[Array, " c"]
    states: PyTree
    count: Int[Array, ""]

    @property
    def used(self) -> Bool[Array, " c"]:
        return jnp.arange(self.cells.shape[0]) < self.count


class GoExploreState(NamedTuple):
    """The archive and all episodes so far. ``visits`` are counted per hashed cell, archived or not."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    unit: Float[Array, " s"]
    visits: Float[Array, " h"]
    archive: Archive


def go_explore(env: Env, config: GoExploreConfig) -> Program[GoExploreState, States]:
    """Explore from restored states; p(s) is nearly uniform over the cells that were reached."""

    def init(key: Key) -> GoExploreState:
        keep_key, reset_key = jax.random.split(key)
        empty = jax.tree.map(lambda x: jnp.broadcast_to(x, (config.cells, *x.shape)), env.reset(reset_key))
        return GoExploreState(
            key=keep_key,
            experience=empty_experience(env, config.iterations * config.rollouts),
            episodes=jnp.int32(0),
            unit=jnp.ones(env.feature_size),
            visits=jnp.zeros(TABLE_SIZE),
            archive=Archive(jnp.zeros(config.cells, jnp.int32), empty, jnp.int32(0)),
        )

    def step(state: GoExploreState, key: Key) -> tuple[GoExploreState, Metrics]:
        lanes = jnp.arange(config.rollouts)
        reset = (lanes == 0) | (state.episodes + lanes < NUM_RESETS) | (state.archive.count == 0)

        def play(key: Key, reset: Bool[Array, ""]) -> Episode:
            choose_key, play_key = jax.random.split(key)
            start = choose_start(choose_key, env, state, reset)
            return random_episode(play_key, env, config.persistence, start_state=start)

        episodes = jax.vmap(play)(jax.random.split(key, config.rollouts), reset)
        state = learn_from(state, episodes, config)
        return state, {"cells": state.archive.count.astype(jnp.float32)}

    def finish(state: GoExploreState) -> States:
        states, real = visited_states(state.experience)
        weights = flat_weights(states / state.unit, real, config.cell)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def choose_start(key: Key, env: Env, state: GoExploreState, reset: Bool[Array, ""]) -> PyTree:
    """Draw a cell with probability ~ 1 / sqrt(visits + 1) and return its state, or a reset state if ``reset``."""
    choose_key, reset_key = jax.random.split(key)
    archive = state.archive
    scores = -0.5 * jnp.log(state.visits[archive.cells] + 1)
    row = jax.random.categorical(choose_key, jnp.where(archive.used, scores, -jnp.inf))
    return jax.tree.map(lambda new, old: jnp.where(reset, new, old[row]), env.reset(reset_key), archive.states)


def learn_from(state: GoExploreState, episodes: Episode, config: GoExploreConfig) -> GoExploreState:
    """Record a batch of episodes, count its visits, and archive the new cells."""
    unit = jnp.where(state.episodes == 0, typical_move(episodes.features, episodes.valid), state.unit)
    reached = episodes.features[:, 1:].reshape(-1, unit.shape[0])
    cells = cells_of(reached, unit, config)
    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), episodes.states)
    alive = (episodes.valid & ~episodes.terminated).reshape(-1)
    return GoExploreState(
        key=state.key,
        experience=record(state.experience, episodes, state.episodes),
        episodes=state.episodes + config.rollouts,
        unit=unit,
        visits=state.visits.at[cells].add(episodes.valid.reshape(-1)),
        archive=archive_new_cells(state.archive, cells, states, alive),
    )


def archive_new_cells(archive: Archive, cells: Int[Array, " n"], states: PyTree, alive: Bool[Array, " n"]) -> Archive:
    """Archive the first non-terminal state of each new cell, up to the capacity."""
    capacity, rows = archive.cells.shape[0], jnp.arange(cells.shape[0])
    known = jnp.zeros(TABLE_SIZE, bool).at[jnp.where(archive.used, archive.cells, TABLE_SIZE)].set(True, mode="drop")
    first = jnp.full(TABLE_SIZE, cells.shape[0]).at[cells].min(jnp.where(alive, rows, cells.shape[0]))
    new = alive & ~known[cells] & (first[cells] == rows)
    place = jnp.where(new, archive.count + jnp.cumsum(new) - 1, capacity)
    return Archive(
        cells=archive.cells.at[place].set(cells, mode="drop"),
        states=jax.tree.map(lambda old, new: old.at[place].set(new, mode="drop"), archive.states, states),
        count=jnp.minimum(archive.count + jnp.sum(new), capacity),
    )


def cells_of(states: Float[Array, "n s"], unit: Float[Array, " s"], config: GoExploreConfig) -> Int[Array, " n"]:
    """The hashed cell of each state."""
    return jax.vmap(lambda s: cell_of(s / unit, config.cell))(states)

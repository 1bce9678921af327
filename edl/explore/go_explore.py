"""Go-Explore (Ecoffet et al., 2019, 2021), phase 1: restore a state from an archive of cells, and explore from there.

Each episode picks a cell with probability ~ 1 / sqrt(visits + 1), restores a state of the world in it, and acts at
random, repeating actions. States in new cells join the archive. Only steps that explore are played, and counted. A
world here is a pure function of its state, so all can be restored; where that is thought unfair, see `frontier`.

p(s) is uniform over the cells: visited states are drawn with weights 1 / visits of their cell. The recorded paths begin
where they were restored, in the middle of the world.

Departs from the paper: actions are repeated with probability 0.5 instead of 0.95, because a step here is as long as
many frames of a game, and an agent that repeats it stands at a wall; a cell keeps the first state found in it instead
of the one with the shortest way, because no policy is made from these ways (phase 2); and one episode of each batch
begins at a reset, because a world may have many starts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.artifacts import Experience, States, blank_experience
from edl.chart import unit_of
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.collect import draw_states, record, visited
from edl.explore.frontier import TABLE, cell_of
from edl.explore.random_walk import wander
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics


@config
class GoExploreConfig:
    """100,000 steps in a world of 50."""

    iterations: int = 100
    rollouts: int = 20
    cell: float = 0.5
    """Side of a cell in typical moves, as seen in the first iteration."""
    cells: int = 16384
    """Room in the archive."""
    persistence: float = 0.5
    """Probability that an action is repeated."""
    num_samples: int = 8192
    region: Predicate | None = None


class Archive(NamedTuple):
    """Cells in the order in which they were found, and a state of the world in each of them."""

    cells: Int[Array, " c"]
    states: PyTree
    count: Int[Array, ""]

    @property
    def used(self) -> Bool[Array, " c"]:
        """The rest is room."""
        return jnp.arange(self.cells.shape[0]) < self.count


class GoExploreState(NamedTuple):
    """What the explorer knows. ``visits`` are counted by hashed cell, archived or not."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    unit: Float[Array, " s"]
    visits: Float[Array, " h"]
    archive: Archive


def go_explore(env: Env, config: GoExploreConfig) -> Program[GoExploreState, States]:
    """Explore from restored states."""

    def init(key: Key) -> GoExploreState:
        keep_key, reset_key = jax.random.split(key)
        room = jax.tree.map(lambda x: jnp.broadcast_to(x, (config.cells, *x.shape)), env.reset(reset_key))
        return GoExploreState(
            key=keep_key,
            experience=blank_experience(env, config.iterations * config.rollouts),
            episodes=jnp.int32(0),
            unit=jnp.ones(env.feature_size),
            visits=jnp.zeros(TABLE),
            archive=Archive(jnp.zeros(config.cells, jnp.int32), room, jnp.int32(0)),
        )

    def step(state: GoExploreState, key: Key) -> tuple[GoExploreState, Metrics]:
        reset = (jnp.arange(config.rollouts) == 0) | (state.archive.count == 0)

        def play(key: Key, reset: Bool[Array, ""]) -> Episode:
            choose_key, play_key = jax.random.split(key)
            start = choose_start(choose_key, env, state, reset)
            return wander(play_key, env, config.persistence, start_state=start)

        episodes = jax.vmap(play)(jax.random.split(key, config.rollouts), reset)
        state = take_in(state, episodes, config)
        return state, {"cells": state.archive.count.astype(jnp.float32)}

    def finish(state: GoExploreState) -> States:
        cells = cells_of(visited(state.experience)[0], state.unit, config)
        weights = 1 / jnp.maximum(state.visits[cells], 1.0)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def choose_start(key: Key, env: Env, state: GoExploreState, reset: Bool[Array, ""]) -> PyTree:
    """A state of the archive, from a cell chosen with probability ~ 1 / sqrt(visits + 1); or a new one, at a reset."""
    choose_key, reset_key = jax.random.split(key)
    archive = state.archive
    scores = -0.5 * jnp.log(state.visits[archive.cells] + 1)
    row = jax.random.categorical(choose_key, jnp.where(archive.used, scores, -jnp.inf))
    return jax.tree.map(lambda new, old: jnp.where(reset, new, old[row]), env.reset(reset_key), archive.states)


def take_in(state: GoExploreState, episodes: Episode, config: GoExploreConfig) -> GoExploreState:
    """Record a batch of episodes, count its visits, and archive the cells that are new."""
    unit = jnp.where(state.episodes == 0, unit_of(episodes.features), state.unit)
    reached = episodes.features[:, 1:].reshape(-1, unit.shape[0])
    cells = cells_of(reached, unit, config)
    worlds = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), episodes.states)
    alive = (episodes.valid & ~episodes.terminated).reshape(-1)
    return GoExploreState(
        key=state.key,
        experience=record(state.experience, episodes, state.episodes),
        episodes=state.episodes + config.rollouts,
        unit=unit,
        visits=state.visits.at[cells].add(episodes.valid.reshape(-1)),
        archive=extend(state.archive, cells, worlds, alive),
    )


def extend(archive: Archive, cells: Int[Array, " n"], states: PyTree, alive: Bool[Array, " n"]) -> Archive:
    """Archive the first state in each cell that is new, as long as there is room; nothing goes on from a dead one."""
    room, rows = archive.cells.shape[0], jnp.arange(cells.shape[0])
    known = jnp.zeros(TABLE, bool).at[jnp.where(archive.used, archive.cells, TABLE)].set(True, mode="drop")
    first = jnp.full(TABLE, cells.shape[0]).at[cells].min(jnp.where(alive, rows, cells.shape[0]))
    new = alive & ~known[cells] & (first[cells] == rows)
    place = jnp.where(new, archive.count + jnp.cumsum(new) - 1, room)
    return Archive(
        cells=archive.cells.at[place].set(cells, mode="drop"),
        states=jax.tree.map(lambda old, new: old.at[place].set(new, mode="drop"), archive.states, states),
        count=jnp.minimum(archive.count + jnp.sum(new), room),
    )


def cells_of(states: Float[Array, "n s"], unit: Float[Array, " s"], config: GoExploreConfig) -> Int[Array, " n"]:
    """The hashed cell of each state."""
    return jax.vmap(lambda s: cell_of(s / unit, config.cell))(states)

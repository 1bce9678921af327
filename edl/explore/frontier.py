"""Ours: go to the frontier of the explored area, then act towards unvisited cells.

It needs no oracle, no restored states and no policy to train. The paper could not explore its bottleneck maze, because
novelty bonuses derail: the agent must return to the frontier before it can extend it, and a policy that follows a
changing bonus forgets the path. Go-Explore returns first and then explores, but restores states of the simulator. Here
the agent walks:

1. *Map*: every move adds to a `LandmarkGraph`, from experience alone.
2. *Go*: each episode chooses a landmark with few visits around it, and follows the shortest path there. The inverse of
   a `LinearModel` of the env gives the actions.
3. *Explore*: from there, it compares a few random actions and takes the one that the model expects to lead to the least
   visited cell. A cell counts as visited if the agent aimed at it from nearby and missed it; otherwise the agent would
   push against walls for ever. Misses are counted per origin, so the same cell is still new from the other side of a
   wall.

p(s) is drawn from the visited states with weights 1/visits, i.e. nearly uniform over the explored area.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, States, empty_experience
from edl.config import config
from edl.envs.base import Box, Env
from edl.envs.rollout import Episode, empty_skill, rollout_with_memory
from edl.explore.collect import draw_states, flat_weights, record, visited_states
from edl.explore.linear_model import LinearModel, as_vector, fit_linear_model
from edl.explore.random_walk import random_action, random_episode
from edl.explore.region import Predicate
from edl.graph.landmarks import (
    LandmarkGraph,
    add_episodes,
    empty_graph,
    farthest_landmarks,
    make_room,
    penalise_edges,
    typical_move,
)
from edl.graph.shortest_paths import ShortestPaths, paths_from
from edl.nets.cells import TABLE_SIZE, cell_of, hash_row
from edl.program import Program
from edl.types import Key, Metrics, Scalar

ARRIVAL_RADIUS = 0.4
"""The agent has arrived at a landmark if it is closer than this."""
BLOCK_SIDE = 0.5
"""Side of the blocks between which misses are counted."""
PROBES = 32
"""Cells sampled around a landmark to estimate its novelty."""


@config
class FrontierConfig:
    """Lengths are in typical moves, so the settings do not depend on the size of the env."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration. The graph is extended after each iteration."""
    landmarks: int = 1024
    """Maximum number of landmarks. When the graph is full, it is thinned out and the spacing grows."""
    spacing: float = 0.5
    """Initial minimum distance between landmarks, in typical moves."""
    cell: float = 0.1
    """Side of the cells in which visits are counted, in typical moves."""
    candidates: int = 64
    """Number of random actions compared at each step of the explore phase."""
    sources: int = 4
    """Number of start regions from which shortest paths are computed."""
    patience: int = 3
    """Maximum number of steps per edge. After that, the agent gives up and explores where it is."""
    greed: float = 1.0
    """Exponent of novelty: goal landmarks are chosen with probability ~ novelty^greed."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class FrontierState(NamedTuple):
    """Everything the explorer has learned."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    graph: LandmarkGraph
    visits: Float[Array, " h"]
    """How often each cell was reached."""
    misses: Float[Array, " h"]
    """How often the agent aimed from one block at a cell in another block and missed it, by pair of blocks."""
    model: LinearModel


class Trip(NamedTuple):
    """The agent's memory during an episode."""

    path: Int[Array, " l"]
    """Landmarks to follow. The first is the start of the episode."""
    length: Int[Array, ""]
    """Number of edges of the path."""
    edges_done: Int[Array, ""]
    attempts: Int[Array, ""]
    """Steps spent on the current edge."""
    exploring: Bool[Array, ""]
    targets: Int[Array, " t"]
    """Cells that the agent aimed at so far in this episode."""
    time: Int[Array, ""]


class Attempt(NamedTuple):
    """What a step tried to do, recorded for `learn_from`."""

    cell: Int[Array, ""]
    """The cell that the agent aimed at; -1 while it follows the path."""
    blocks: Int[Array, ""]
    """The pair of blocks of that attempt (see `block_pair`)."""
    edge_source: Int[Array, ""]
    edge_target: Int[Array, ""]
    """The edge that the agent follows or last followed."""
    failed: Bool[Array, ""]
    """Whether the agent gave up that edge at this step."""


class Choice(NamedTuple):
    """An action of the explore phase, the cell it aims at, and the pair of blocks of the attempt."""

    action: Array
    cell: Int[Array, ""]
    blocks: Int[Array, ""]


def frontier(env: Env, config: FrontierConfig) -> Program[FrontierState, States]:
    """Explore by returning to the frontier and going beyond it."""

    def init(key: Key) -> FrontierState:
        keep_key, play_key = jax.random.split(key)
        first = jax.vmap(lambda key: random_episode(key, env, 0.5))(jax.random.split(play_key, config.rollouts))
        state = FrontierState(
            key=keep_key,
            experience=empty_experience(env, (config.iterations + 1) * config.rollouts),
            episodes=jnp.int32(0),
            graph=empty_graph(typical_move(first.features, first.valid), config.landmarks, config.spacing),
            visits=jnp.zeros(TABLE_SIZE),
            misses=jnp.zeros(TABLE_SIZE),
            model=fit_linear_model(env, first),
        )
        return learn_from(env, config, state, first._replace(extras=None))

    def step(state: FrontierState, key: Key) -> tuple[FrontierState, Metrics]:
        starts = state.experience.paths[: 2 * config.rollouts, 0]
        paths = paths_from(state.graph, farthest_landmarks(state.graph, starts, config.sources))
        novelty_key, play_key = jax.random.split(key)
        choose = path_chooser(novelty_key, state, paths, env.horizon, config)
        keys = jax.random.split(play_key, config.rollouts)
        episodes = jax.vmap(lambda key: go_and_explore(key, env, config, state, choose))(keys)
        state = learn_from(env, config, state, episodes)
        metrics = {
            "landmarks": state.graph.count.astype(jnp.float32),
            "passable": jnp.sum(state.graph.passable()).astype(jnp.float32),
            "arrived": 1 - jnp.mean(jnp.any(episodes.extras.failed, axis=1)),
        }
        return state, metrics

    def finish(state: FrontierState) -> States:
        states, real = visited_states(state.experience)
        weights = flat_weights(states / state.graph.unit, real, config.cell)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def learn_from(env: Env, config: FrontierConfig, state: FrontierState, episodes: Episode) -> FrontierState:
    """Record a batch of episodes, extend the graph, count visits and misses, and refit the model."""
    graph = add_episodes(state.graph, episodes.features, episodes.valid)
    reached = episodes.features[:, 1:].reshape(-1, env.feature_size)
    valid = episodes.valid.reshape(-1).astype(jnp.float32)
    cells = jax.vmap(lambda s: cell_of(s / graph.unit, config.cell))(reached)
    visits = state.visits.at[cells].add(valid)
    misses = state.misses
    if episodes.extras is not None:
        attempt: Attempt = jax.tree.map(lambda x: x.reshape(-1), episodes.extras)
        misses = misses.at[attempt.blocks].add(valid * (attempt.cell != cells) * (attempt.cell >= 0))
        graph = penalise_edges(graph, attempt.edge_source, attempt.edge_target, attempt.failed & (valid > 0))
    return FrontierState(
        key=state.key,
        experience=record(state.experience, episodes, state.episodes),
        episodes=state.episodes + config.rollouts,
        graph=make_room(graph),
        visits=visits,
        misses=misses,
        model=fit_linear_model(env, episodes),
    )


def path_chooser(
    key: Key, state: FrontierState, paths: ShortestPaths, horizon: int, config: FrontierConfig
) -> Callable[..., tuple]:
    """``choose(key, s_0)``: a path to a novel landmark that leaves time to explore around it, and its length."""
    graph = state.graph
    keys = jax.random.split(key, graph.landmarks.shape[0])
    scores = config.greed * jnp.log(jax.vmap(novelty, (0, None, 0, None))(keys, state, graph.landmarks, config))

    def choose(key: Key, first: Float[Array, " s"]) -> tuple[Int[Array, " l"], Int[Array, ""]]:
        source = paths.nearest_source(graph, first)
        in_reach = paths.hops[source] <= horizon - max(horizon // 6, 1)
        goal = jax.random.categorical(key, jnp.where(in_reach & graph.used, scores, -jnp.inf))
        return paths.path(source, goal, horizon)

    return choose


def novelty(key: Key, state: FrontierState, landmark: Float[Array, " s"], config: FrontierConfig) -> Scalar:
    """Mean of (1 + visits + misses)^-2 over random cells about a move away from a landmark."""
    around = landmark + jax.random.normal(key, (PROBES, landmark.shape[0]))
    cells = jax.vmap(lambda s: cell_of(s, config.cell))(around)
    blocks = jax.vmap(lambda s: block_pair(landmark, s))(around)
    return jnp.mean((1 + state.visits[cells] + state.misses[blocks]) ** -2.0)


def go_and_explore(
    key: Key, env: Env, config: FrontierConfig, state: FrontierState, choose: Callable[..., tuple]
) -> Episode:
    """One episode: follow a path edge by edge, then act towards the least visited cells."""
    choose_key, play_key = jax.random.split(key)

    def start_trip(observation: Float[Array, " o"]) -> Trip:
        path, length = choose(choose_key, env.features(observation))
        zero = jnp.int32(0)
        return Trip(path, length, zero, zero, length == 0, jnp.full(env.horizon, -1), zero)

    def act(key: Key, observation: Float[Array, " o"], trip: Trip) -> tuple[Array, Attempt, Trip]:
        here = env.features(observation)
        was_following = ~trip.exploring
        trip = follow_path(trip, here, state.graph, config)
        edge_source, edge_target = trip.path[trip.edges_done], trip.path[trip.edges_done + 1]
        explore_action, cell, blocks = least_visited(key, env, config, state, here, trip.targets)
        target = state.graph.landmarks[edge_target] * state.graph.unit
        action = jnp.where(trip.exploring, explore_action, action_towards(env, state.model, here, target))
        cell = jnp.where(trip.exploring, cell, -1)
        gave_up = was_following & trip.exploring & (trip.edges_done < trip.length)
        attempt = Attempt(cell, blocks, edge_source, edge_target, gave_up)
        return action, attempt, trip._replace(targets=trip.targets.at[trip.time].set(cell), time=trip.time + 1)

    return rollout_with_memory(play_key, env, act, empty_skill(), start_trip)


def follow_path(trip: Trip, here: Float[Array, " s"], graph: LandmarkGraph, config: FrontierConfig) -> Trip:
    """Go on to the next edge on arrival at a landmark; give up after ``patience`` steps on one edge."""
    gap = jnp.sum((graph.landmarks[trip.path[trip.edges_done + 1]] - here / graph.unit) ** 2)
    arrived = (gap < ARRIVAL_RADIUS**2) & ~trip.exploring
    edges_done = trip.edges_done + arrived
    attempts = jnp.where(arrived, 0, trip.attempts + 1)
    exploring = trip.exploring | (edges_done >= trip.length) | (attempts > config.patience)
    return trip._replace(edges_done=edges_done, attempts=attempts, exploring=exploring)


def least_visited(
    key: Key,
    env: Env,
    config: FrontierConfig,
    state: FrontierState,
    here: Float[Array, " s"],
    targets: Int[Array, " t"],
) -> Choice:
    """The random action that should lead to the least visited cell. Cells in ``targets`` count as visited once more."""
    action_key, tie_key = jax.random.split(key)
    actions = jax.vmap(lambda k: random_action(k, env.action_space))(jax.random.split(action_key, config.candidates))
    ahead = jax.vmap(lambda action: state.model.forward(here, as_vector(action, env)))(actions)
    unit = state.graph.unit
    cells = jax.vmap(lambda s: cell_of(s / unit, config.cell))(ahead)
    blocks = jax.vmap(lambda s: block_pair(here / unit, s / unit))(ahead)
    repeats = jnp.sum(cells[:, None] == targets[None], axis=1)
    counts = state.visits[cells] + state.misses[blocks] + repeats
    best = jnp.argmin(counts + jax.random.uniform(tie_key, cells.shape))
    return Choice(actions[best], cells[best], blocks[best])


def action_towards(env: Env, model: LinearModel, here: Float[Array, " s"], target: Float[Array, " s"]) -> Array:
    """The action that leads closest to ``target`` according to the model."""
    space = env.action_space
    if isinstance(space, Box):
        return model.inverse(here, target, space)
    ahead = jax.vmap(lambda action: model.forward(here, as_vector(action, env)))(jnp.arange(space.n))
    return jnp.argmin(jnp.sum((ahead - target) ** 2, axis=1)).astype(jnp.int32)


def block_pair(origin: Float[Array, " s"], target: Float[Array, " s"]) -> Int[Array, ""]:
    """The row of the pair (block of ``target``, block of ``origin``). Blocks are coarse: there are many pairs."""
    return hash_row(jnp.floor(jnp.concatenate([target, origin]) / BLOCK_SIDE).astype(jnp.int32))

"""Ours: go to the frontier, then step where nobody has been. No oracle, no restored states, no policy to train.

The paper could not explore its bottleneck maze, because bonuses for novelty derail: the agent must find its way back to
the frontier before it can push it, and a policy that chases a moving bonus forgets the way. Go-Explore's cure is to
return first and explore then; its simulator restores states. Here the agent walks:

1. *Chart*: every move is drawn into a `Chart` of landmarks and roads between them, from experience alone.
2. *Go*: each episode picks a landmark around which little has been visited, and follows the roads to it, each road by
   the inverse of a `LinearModel` of the world.
3. *Explore*: from there, of a few random actions it takes the one that the model expects to lead to the least visited
   cell. A cell that was missed when it was aimed at from about here counts as visited, or the agent would push against
   walls for ever; aimed at from behind the wall, it is as new as ever.

p(s) is drawn from the visited states with weights 1/visits, i.e. nearly uniform over what was reached.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl import chart as charts
from edl.artifacts import Experience, States, blank_experience
from edl.chart import Chart
from edl.config import config
from edl.envs.base import Box, Env
from edl.envs.rollout import Episode, Skill, rollout_with_memory
from edl.explore.collect import draw_states, record, visited
from edl.explore.linear_model import LinearModel, as_vector, fit_linear_model
from edl.explore.random_walk import random_action, wander
from edl.explore.region import Predicate
from edl.program import Program
from edl.types import Key, Metrics, Scalar
from edl.ways import Ways, apart, ways_from


@config
class FrontierConfig:
    """Lengths are in typical moves, so that nothing depends on the size of a world."""

    iterations: int = 100
    rollouts: int = 20
    """Episodes per iteration. The chart is redrawn after each iteration."""
    landmarks: int = 1024
    """Room on the chart. When it is full, landmarks are thinned and the spacing grows."""
    spacing: float = 0.5
    """Least distance between landmarks, to begin with."""
    cell: float = 0.1
    """Side of the cells in which visits are counted."""
    candidates: int = 64
    """Actions compared at each step of the explore phase."""
    sources: int = 4
    """Start regions that get ways of their own."""
    patience: int = 3
    """Steps on one road before the agent gives up and explores where it is."""
    greed: float = 1.0
    """Landmarks are chosen with probability ~ promise^greed."""
    num_samples: int = 8192
    region: Predicate | None = None


class FrontierState(NamedTuple):
    """What the explorer knows."""

    key: Key
    experience: Experience
    episodes: Int[Array, ""]
    chart: Chart
    visits: Float[Array, " h"]
    """How often each cell was reached."""
    missed: Float[Array, " h"]
    """How often a cell in one block of states was aimed at in vain from another."""
    model: LinearModel


class Trip(NamedTuple):
    """What the agent remembers during an episode."""

    way: Int[Array, " l"]
    """Landmarks, the first being where the episode starts."""
    length: Int[Array, ""]
    leg: Int[Array, ""]
    """Roads walked so far."""
    tries: Int[Array, ""]
    exploring: Bool[Array, ""]
    aimed: Int[Array, " t"]
    """Cells aimed at so far in this episode."""
    time: Int[Array, ""]


class Aim(NamedTuple):
    """What is remembered of a step after the episode.

    The cell aimed at (-1 on the way), the same as aimed at from there (see `shot_at`), the road the agent is on or was
    last on, and whether it gave that up just now.
    """

    cell: Int[Array, ""]
    shot: Int[Array, ""]
    begin: Int[Array, ""]
    end: Int[Array, ""]
    failed: Bool[Array, ""]


def frontier(env: Env, config: FrontierConfig) -> Program[FrontierState, States]:
    """Explore by returning to the frontier and stepping beyond it."""

    def init(key: Key) -> FrontierState:
        keep_key, play_key = jax.random.split(key)
        first = jax.vmap(lambda key: wander(key, env, 0.5))(jax.random.split(play_key, config.rollouts))
        state = FrontierState(
            key=keep_key,
            experience=blank_experience(env, (config.iterations + 1) * config.rollouts),
            episodes=jnp.int32(0),
            chart=charts.blank_chart(charts.unit_of(first.features), config.landmarks, config.spacing),
            visits=jnp.zeros(TABLE),
            missed=jnp.zeros(TABLE),
            model=fit_linear_model(env, first),
        )
        return take_in(env, config, state, first._replace(extras=None))

    def step(state: FrontierState, key: Key) -> tuple[FrontierState, Metrics]:
        starts = state.experience.paths[: 2 * config.rollouts, 0]
        ways = ways_from(state.chart, apart(state.chart, starts, config.sources))
        promise_key, play_key = jax.random.split(key)
        choose = goal_chooser(promise_key, state, ways, env.horizon, config)
        keys = jax.random.split(play_key, config.rollouts)
        episodes = jax.vmap(lambda key: go_and_explore(key, env, config, state, choose))(keys)
        state = take_in(env, config, state, episodes)
        metrics = {
            "landmarks": state.chart.count.astype(jnp.float32),
            "passable": jnp.sum(state.chart.passable()).astype(jnp.float32),
            "arrived": 1 - jnp.mean(jnp.any(episodes.extras.failed, axis=1)),
        }
        return state, metrics

    def finish(state: FrontierState) -> States:
        states, _ = visited(state.experience)
        cells = jax.vmap(lambda s: cell_of(s / state.chart.unit, config.cell))(states)
        weights = 1 / jnp.maximum(state.visits[cells], 1.0)
        return draw_states(state.key, state.experience, weights, config.num_samples, config.region)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def take_in(env: Env, config: FrontierConfig, state: FrontierState, episodes: Episode) -> FrontierState:
    """Learn from a batch of episodes: record, redraw the chart, count visits, refit the model."""
    chart = charts.extend(state.chart, episodes.features, episodes.valid)
    reached = episodes.features[:, 1:].reshape(-1, env.feature_size)
    valid = episodes.valid.reshape(-1).astype(jnp.float32)
    cells = jax.vmap(lambda s: cell_of(s / chart.unit, config.cell))(reached)
    visits = state.visits.at[cells].add(valid)
    missed = state.missed
    if episodes.extras is not None:
        aim = jax.tree.map(lambda x: x.reshape(-1), episodes.extras)
        missed = missed.at[aim.shot].add(valid * (aim.cell != cells) * (aim.cell >= 0))
        chart = charts.close_roads(chart, aim.begin, aim.end, aim.failed & (valid > 0))
    return FrontierState(
        key=state.key,
        experience=record(state.experience, episodes, state.episodes),
        episodes=state.episodes + config.rollouts,
        chart=charts.make_room(chart),
        visits=visits,
        missed=missed,
        model=fit_linear_model(env, episodes),
    )


def goal_chooser(
    key: Key, state: FrontierState, ways: Ways, horizon: int, config: FrontierConfig
) -> Callable[..., tuple]:
    """``choose(key, s_0)``: the way to a promising landmark that leaves time to explore around it."""
    chart = state.chart
    keys = jax.random.split(key, chart.landmarks.shape[0])
    scores = config.greed * jnp.log(jax.vmap(promise, (0, None, 0, None))(keys, state, chart.landmarks, config))

    def choose(key: Key, first: Float[Array, " s"]) -> tuple[Int[Array, " l"], Int[Array, ""]]:
        source = ways.source_of(chart, first)
        near = ways.hops[source] <= horizon - max(horizon // 6, 1)
        goal = jax.random.categorical(key, jnp.where(near & chart.used, scores, -jnp.inf))
        return ways.way(source, goal, horizon)

    return choose


def promise(key: Key, state: FrontierState, landmark: Float[Array, " s"], config: FrontierConfig) -> Scalar:
    """How little the cells within a move of a landmark have been visited, or missed from it: mean (1 + visits)^-2."""
    around = landmark + jax.random.normal(key, (PROBES, landmark.shape[0]))
    cells = jax.vmap(lambda s: cell_of(s, config.cell))(around)
    shots = jax.vmap(lambda s: shot_at(landmark, s))(around)
    return jnp.mean((1 + state.visits[cells] + state.missed[shots]) ** -2.0)


def go_and_explore(
    key: Key, env: Env, config: FrontierConfig, state: FrontierState, choose: Callable[..., tuple]
) -> Episode:
    """One episode: follow the way road by road, then step to the least visited cell in reach."""
    choose_key, play_key = jax.random.split(key)

    def begin(observation: Float[Array, " o"]) -> Trip:
        way, length = choose(choose_key, env.features(observation))
        zero = jnp.int32(0)
        return Trip(way, length, zero, zero, length == 0, jnp.full(env.horizon, -1), zero)

    def act(key: Key, observation: Float[Array, " o"], trip: Trip) -> tuple[Array, Aim, Trip]:
        here = env.features(observation)
        was_going = ~trip.exploring
        trip = follow(trip, here, state.chart, config)
        end = trip.way[trip.leg + 1]
        action, cell, shot = least_visited(key, env, config, state, here, trip.aimed)
        on_the_way = walk(env, state.model, here, state.chart.landmarks[end] * state.chart.unit)
        action = jnp.where(trip.exploring, action, on_the_way)
        cell = jnp.where(trip.exploring, cell, -1)
        aim = Aim(cell, shot, trip.way[trip.leg], end, was_going & trip.exploring & (trip.leg < trip.length))
        return action, aim, trip._replace(aimed=trip.aimed.at[trip.time].set(cell), time=trip.time + 1)

    skill = Skill(code=jnp.zeros(0), index=jnp.int32(0))
    return rollout_with_memory(play_key, env, act, skill, begin)


def follow(trip: Trip, here: Float[Array, " s"], chart: Chart, config: FrontierConfig) -> Trip:
    """Move on to the next road when a waypoint is reached; give up after ``patience`` steps on one road."""
    gap = jnp.sum((chart.landmarks[trip.way[trip.leg + 1]] - here / chart.unit) ** 2)
    reached = (gap < charts.ARRIVAL**2) & ~trip.exploring
    leg = trip.leg + reached
    tries = jnp.where(reached, 0, trip.tries + 1)
    exploring = trip.exploring | (leg >= trip.length) | (tries > config.patience)
    return trip._replace(leg=leg, tries=tries, exploring=exploring)


def least_visited(
    key: Key, env: Env, config: FrontierConfig, state: FrontierState, here: Float[Array, " s"], aimed: Int[Array, " t"]
) -> tuple[Array, Int[Array, ""], Int[Array, ""]]:
    """Of some random actions, the one expected to lead to the least visited cell; that cell, and the shot at it."""
    action_key, tie_key = jax.random.split(key)
    actions = jax.vmap(lambda k: random_action(k, env.action_space))(jax.random.split(action_key, config.candidates))
    ahead = jax.vmap(lambda action: state.model.forward(here, as_vector(action, env)))(actions)
    unit = state.chart.unit
    cells = jax.vmap(lambda s: cell_of(s / unit, config.cell))(ahead)
    shots = jax.vmap(lambda s: shot_at(here / unit, s / unit))(ahead)
    again = jnp.sum(cells[:, None] == aimed[None], axis=1)
    known = state.visits[cells] + state.missed[shots] + again
    best = jnp.argmin(known + jax.random.uniform(tie_key, cells.shape))
    return actions[best], cells[best], shots[best]


def walk(env: Env, model: LinearModel, here: Float[Array, " s"], target: Float[Array, " s"]) -> Array:
    """The action that leads towards ``target``."""
    space = env.action_space
    if isinstance(space, Box):
        return model.inverse(here, target, space)
    ahead = jax.vmap(lambda action: model.forward(here, as_vector(action, env)))(jnp.arange(space.n))
    return jnp.argmin(jnp.sum((ahead - target) ** 2, axis=1)).astype(jnp.int32)


BLOCK = 0.5
"""Side of the blocks between which misses are counted, in typical moves."""
PROBES = 32
"""Cells looked at around a landmark."""
TABLE = 2**18
"""Size of the table of visits."""
PRIMES = (73856093, 19349663, 83492791, 49979687, 86028121, 67867967, 15485863, 32452843)
MIXER = 739982445


def cell_of(state: Float[Array, " s"], side: float | Scalar) -> Int[Array, ""]:
    """A hashed grid cell: a table of counts for any number of dimensions."""
    return hashed(jnp.floor(state / side).astype(jnp.int32))


def shot_at(origin: Float[Array, " s"], state: Float[Array, " s"]) -> Int[Array, ""]:
    """The block of ``state`` as aimed at from the block of ``origin``, hashed. Coarse: there are many pairs."""
    return hashed(jnp.floor(jnp.concatenate([state, origin]) / BLOCK).astype(jnp.int32))


def hashed(corner: Int[Array, " d"]) -> Int[Array, ""]:
    """A row of the table for a vector of integers."""
    primes = jnp.asarray(PRIMES, jnp.int32)[jnp.arange(corner.shape[0]) % len(PRIMES)]
    mixed = (corner + jnp.arange(corner.shape[0])) * primes
    # Without a shift in between, -x is nearly the complement of x, and (-x, -y) falls into the row of (x, y).
    mixed = (mixed ^ jax.lax.shift_right_logical(mixed, 15)) * MIXER
    mixed = mixed ^ jax.lax.shift_right_logical(mixed, 12)
    return jnp.bitwise_xor.reduce(mixed) & (TABLE - 1)

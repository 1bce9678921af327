"""Walking distance, estimated from experience: the length of the shortest way along roads that were walked.

The paper blames its deceptive rewards on the Gaussian q(s|z) in Euclidean distance, "which does not consider the actual
connectivity within the MDP". Here the distance is measured along moves that were made; nothing is read off walls.

What must not happen is a shortcut: walls are thin, agents rest against both sides of them, and a single false road
through one spoils all distances. So nothing is ever taken for connected because it is near.

* In the plane, two moves are connected if and only if they *cross*. Landmarks are pieces of moves, and a road between
  two of them is a move that crosses both.
* In more dimensions moves do not cross. There a `Chart` supplies roads between landmarks with room around them.
* A state is not located by the nearest landmark either, which may be behind a wall. An episode is *followed*: whenever
  a move of it crosses a piece, that is where it is, for certain; until the next time it stays there, or goes to another
  landmark that can be seen from there (the walk to it is hardly longer than the straight line).

Lengths are in typical moves (`edl.chart.unit_of`) until the last line of `Walking.along`.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl import chart as charts
from edl.artifacts import Experience
from edl.config import config
from edl.learn.distance import Distance
from edl.learn.roads import BATCH, crossing_points, shortest, survey_by_chart, survey_by_crossing
from edl.types import Key, Scalar

STATES = 131072
"""Explored states kept at most, by which goals are located."""
FAR = 1e6
"""Where states are put that were not reached."""
CLOSE = 0.6
"""A short way that is longer than the straight line by no more than this (and `DETOUR`) is straight."""
SIGHT = 2.5
"""Goals that are farther away are never taken to be in sight: the corner that hides one adds little to a long way, and
a straight line to it ends at the wall before that corner."""
NEAR = 1.0
"""So near a landmark, a state belongs to it."""
OVERLAP = 0.8
"""Landmarks within this distance may carry a state's way on."""
DETOUR, SLACK = 1.25, 0.1
"""A landmark can be seen from another if the walk between them is at most the straight line times this, plus that."""


@config
class WalkingConfig:
    """Lengths are in typical moves."""

    landmarks: int = 1024
    """Landmarks at most. Memory grows with the square, building time with the cube."""
    spacing: float = 0.3
    """Least distance between landmarks."""
    neighbours: int = 96
    """Landmarks to which one step may lead."""
    episodes: int = 2000
    """Explored episodes used at most."""


class Walking(Distance):
    """d(s, g) along roads. ``walks`` are the shortest ways between landmarks; ``known`` says which landmarks count.

    ``pieces`` reach to both sides of the landmarks (they are zero where moves do not cross). ``neighbours`` are the
    landmarks to be seen from each, the nearest first. ``states`` are explored ones, each with the landmark at which its
    episode was when it came there (``homes``): by them a state without a past, such as a goal, is located. Once it is
    aimed at some goals, they take the place of the states, and ``lefts`` are the ways that are left to them.
    """

    unit: Float[Array, " s"]
    landmarks: Float[Array, "m s"]
    pieces: Float[Array, "m s"]
    known: Bool[Array, " m"]
    begins: Bool[Array, " m"]
    walks: Float[Array, "m m"]
    neighbours: Int[Array, "m k"]
    states: Float[Array, "n s"]
    homes: Int[Array, " n"]
    lefts: Float[Array, "n m"] | None = None

    def along(self, path: Float[Array, "t1 s"], goal: Float[Array, " s"]) -> Float[Array, " t1"]:
        """Follow an episode from landmark to landmark, and measure the way that is left at each state."""
        path, goal = path / self.unit, goal / self.unit
        left = self.left(goal)

        def measure(state: Float[Array, " s"], node: Int[Array, ""]) -> Scalar:
            gap, near = self.about(state, node)
            walked, straight = jnp.min(gap + left[near]), jnp.linalg.norm(state - goal)
            in_view = (straight <= SIGHT) & (walked <= DETOUR * straight + CLOSE)
            return jnp.where(in_view, straight, walked)

        distances = jax.vmap(measure)(path, self.follow(path))
        return distances * jnp.exp(jnp.mean(jnp.log(self.unit)))

    def left(self, goal: Float[Array, " s"]) -> Float[Array, " m"]:
        """The way that is left to a goal from each landmark."""
        if self.lefts is not None:
            return self.lefts[self.nearest(goal)]
        gap, near = self.about(goal, self.home(goal))
        return jnp.min(self.walks[near] + gap[:, None], axis=0)

    def about(self, state: Float[Array, " s"], node: Int[Array, ""]) -> tuple[Float[Array, " k"], Int[Array, " k"]]:
        """The landmarks about a state that is at ``node``, and how far they are: infinitely, if not about it."""
        near = self.neighbours[node]
        gap = jnp.sqrt(squares(self.landmarks, state, near))
        return jnp.where(gap <= jnp.maximum(OVERLAP, jnp.min(gap)), gap, jnp.inf), near

    def aim(self, goals: Float[Array, "k s"]) -> "Walking":
        """The same distance, for these goals alone: they are located once, instead of for every episode."""
        goals = goals / self.unit
        homes, lefts = jax.lax.map(lambda goal: (self.home(goal), self.left(goal)), goals)
        return dataclasses.replace(self, states=goals, homes=homes, lefts=lefts)

    def home(self, goal: Float[Array, " s"]) -> Int[Array, ""]:
        """The landmark of a state without a past: that of the nearest explored state."""
        return self.homes[self.nearest(goal)]

    def nearest(self, goal: Float[Array, " s"]) -> Int[Array, ""]:
        """The nearest of the states that are kept."""
        return jnp.argmin(squares(self.states, goal))

    def follow(self, path: Float[Array, "t1 s"]) -> Int[Array, " t1"]:
        """The landmarks that an episode is at."""
        first = self.begin(path[0])

        def move(node: Int[Array, ""], step: tuple) -> tuple[Int[Array, ""], Int[Array, ""]]:
            state, sure, crossed = step
            near = self.neighbours[node]
            stays = jnp.sum((self.landmarks[node] - state) ** 2) <= NEAR**2
            closest = near[jnp.argmin(squares(self.landmarks, state, near))]
            node = jnp.where(sure, crossed, jnp.where(stays, node, closest))
            return node, node

        _, nodes = jax.lax.scan(move, first, (path[1:], *self.last_crossed(path)))
        return jnp.concatenate([first[None], nodes])

    def last_crossed(self, path: Float[Array, "t1 s"]) -> tuple[Bool[Array, " t"], Int[Array, " t"]]:
        """Whether each move crosses a piece, and the last one that it crosses."""
        if path.shape[-1] != 2:
            nothing = jnp.zeros(path.shape[0] - 1, jnp.int32)
            return nothing > 0, nothing
        where = crossing_points(path[:-1], path[1:], self.landmarks, self.pieces)
        return last(jnp.where(self.known, where, -1.0))

    def begin(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """Where an episode begins: at a landmark that explored episodes began at, if there is one about."""
        gap = squares(self.landmarks, state)
        usual = jnp.argmin(jnp.where(self.begins, gap, jnp.inf))
        nearest = jnp.argmin(jnp.where(self.known, gap, jnp.inf))
        return jnp.where(self.begins[usual] & (gap[usual] <= (2 * NEAR) ** 2), usual, nearest)


def squares(
    points: Float[Array, "n s"], state: Float[Array, " s"], rows: Int[Array, " k"] | None = None
) -> Float[Array, " n_or_k"]:
    """Squared distances of a state to points, or to some rows of them: column by column.

    A CPU takes seven times as long to sum over an axis as short as that of a state.
    """
    columns = [points[:, i] if rows is None else points[:, i][rows] for i in range(state.shape[0])]
    return sum((column - x) ** 2 for column, x in zip(columns, state, strict=True))  # type: ignore[return-value]


def last(shares: Float[Array, "n m"]) -> tuple[Bool[Array, " n"], Int[Array, " n"]]:
    """Whether any of the shares of a move is not negative, and the column of the largest.

    As `jnp.argmax`, in a third of its time on a CPU: a share and its column are put in one number, so that one maximum
    finds both. Shares that differ by less than some 2^-13 of a move count as equal.
    """
    bits = max(shares.shape[1] - 1, 1).bit_length()
    columns = jnp.arange(shares.shape[1], dtype=jnp.uint32)
    words = jax.lax.bitcast_convert_type(1.0 + shares, jnp.uint32) >> bits << bits | columns
    largest = jnp.max(jax.lax.bitcast_convert_type(jnp.where(shares >= 0, words, 0), jnp.float32), axis=1)
    found = jax.lax.bitcast_convert_type(largest, jnp.uint32) & ((1 << bits) - 1)
    return largest > 0, found.astype(jnp.int32)


def walking_distance(key: Key, experience: Experience, config: WalkingConfig) -> Walking:
    """Landmarks, roads, the shortest ways along them, and where explored states are among them."""
    choose_key, landmark_key, state_key = jax.random.split(key, 3)
    paths, valid = some_episodes(choose_key, experience, config.episodes)
    unit = charts.unit_of(paths)
    paths = paths / unit
    survey = survey_by_crossing if paths.shape[-1] == 2 else survey_by_chart
    landmarks, pieces, used, roads, begins = survey(landmark_key, paths, valid, config.landmarks, config.spacing)
    walks = shortest(roads)
    hub = jnp.argmax(jnp.sum(jnp.isfinite(walks) & used, axis=1))
    known = jnp.isfinite(walks[hub]) & used
    walks = jnp.where(known[:, None] & known, walks, jnp.inf)
    neighbours = in_sight(landmarks, walks, min(config.neighbours, config.landmarks))
    nobody = (jnp.zeros((1, paths.shape[-1])), jnp.zeros(1, jnp.int32))
    draft = Walking(unit, landmarks, pieces, known, begins & known, walks, neighbours, *nobody)
    states, homes = explored_states(state_key, paths, valid, draft)
    return eqx.tree_at(lambda w: (w.states, w.homes), draft, (states, homes))


def seen(walks: Float[Array, "*m"], straight: Float[Array, "*m"]) -> Bool[Array, "*m"]:
    """Whether the walk between landmarks is no detour."""
    return walks <= DETOUR * straight + SLACK


def in_sight(landmarks: Float[Array, "m s"], walks: Float[Array, "m m"], count: int) -> Int[Array, "m k"]:
    """The nearest landmarks that can be seen from each; where there are fewer, the rest is the landmark itself."""
    straight = jnp.linalg.norm(landmarks[:, None] - landmarks, axis=-1)
    gaps, near = jax.lax.top_k(-jnp.where(seen(walks, straight), walks, jnp.inf), count)
    return jnp.where(gaps > -jnp.inf, near, jnp.arange(landmarks.shape[0])[:, None])


def explored_states(
    key: Key, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"], walking: Walking
) -> tuple[Float[Array, "n s"], Int[Array, " n"]]:
    """Some of the states that were reached, and the landmarks that their episodes were at."""
    homes = jax.lax.map(walking.follow, paths, batch_size=BATCH)[:, 1:].reshape(-1)
    states = jnp.where(valid[..., None], paths[:, 1:], FAR).reshape(-1, paths.shape[-1])
    some = jax.random.permutation(key, states.shape[0])[:STATES]
    return states[some], homes[some]


def some_episodes(key: Key, experience: Experience, most: int) -> tuple[Float[Array, "e t1 s"], Bool[Array, "e t"]]:
    """At most so many episodes, a multiple of the batch, at random; and which of their moves are real."""
    total = experience.paths.shape[0]
    count = max(min(total, most) // BATCH, 1) * BATCH
    chosen = jax.random.permutation(key, jnp.arange(max(total, count)) % total)[:count]
    paths, lengths = experience.paths[chosen], experience.lengths[chosen]
    return paths, jnp.arange(paths.shape[1] - 1) < lengths[:, None]

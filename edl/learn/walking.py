"""Walking distance, estimated from experience: the length of the shortest path along observed moves.

The paper attributes its deceptive rewards to the Gaussian q(s|z) in Euclidean distance, "which does not consider the
actual connectivity within the MDP". Here the distance is measured along moves that were made. The walls are not read.

The estimate must not contain shortcuts: walls are thin, agents rest against both sides of them, and a single false edge
through a wall spoils all distances. Therefore two states are never joined only because they are close.

* In the plane, two moves are connected if and only if they *cross*. Landmarks are segments of moves, and an edge joins
  two landmarks if one move crosses both.
* In more dimensions moves do not cross. There, edges join passable landmarks of a `LandmarkGraph`.
* The nearest landmark to a state may be behind a wall, so it does not say where the state is. Instead, an episode is
  *followed*: if a move crosses a landmark's segment, the episode is certainly at that landmark. Until the next
  crossing, it stays there, or goes to another landmark that is visible from there (the path to it is hardly longer
  than the straight line).
* Near the end of a wall, landmarks on both sides are visible, and an episode that slides along the wall crosses none of
  them. Of several landmarks that are about as close, the one *farthest* from the goal then counts. A wrong choice of
  the near side would reward the policy for standing behind the wall, and it would stay there.

Lengths are in typical moves (`edl.graph.landmarks.typical_move`), except for the result of `WalkingDistance.along`.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience
from edl.config import check, config
from edl.graph.landmarks import typical_move
from edl.graph.shortest_paths import floyd_warshall
from edl.graph.weighted_graph import EPISODES_PER_BATCH, crossing_points, weighted_graph
from edl.learn.distance import Distance
from edl.nets.linalg import squared_distances
from edl.types import Key, Scalar

MAX_REFERENCE_STATES = 131072
"""Maximum number of explored states that are kept to locate goals."""
UNREACHED = 1e6
"""Coordinate of padding states: they are never the nearest state."""
SIGHT_RADIUS = 2.5
"""Maximum distance of a visible goal. The corner that hides a farther goal adds little to a long path, and a straight
line to the goal would end at the wall before that corner."""
SIGHT_SLACK = 0.6
"""A goal is visible if its walking distance is at most `MAX_DETOUR` times the straight distance, plus this."""
MAX_DETOUR, DETOUR_SLACK = 1.25, 0.1
"""A landmark is visible from another if the path between them is at most `MAX_DETOUR` times the straight line, plus
`DETOUR_SLACK`."""
LANDMARK_RADIUS = 1.0
"""An episode stays at its landmark while it is within this distance."""
AMBIGUITY_RADIUS = 0.5
"""If an episode crosses no landmark, it may be at any visible landmark that is at most this much farther away than the
closest one."""
NEARBY_RADIUS = 0.8
"""A state's path to a goal may continue from landmarks within this distance."""
WALL_DETOUR = 1.5
"""If a walk to a goal is longer than the straight line by more than this, a wall is between them. Measured on pairs of
explored states at most 0.5 cells apart (bottleneck and 8 random mazes): it rejects 0.2 to 1.7 % of the pairs that are
also at most 0.5 cells apart on foot, and accepts 0.3 to 0.6 % of those with a detour of more than 2."""


@config
class WalkingConfig:
    """Settings of walking distance. Lengths are in typical moves."""

    landmarks: int = 1024
    """Maximum number of landmarks. Memory grows with its square, and the time to build the graph with its cube."""
    spacing: float = 0.3
    """Minimum distance between landmarks, in typical moves."""
    neighbours: int = 96
    """Maximum number of visible landmarks that are stored per landmark."""
    episodes: int = 2000
    """Maximum number of explored episodes used."""
    stride: int = 1
    """Steps of the env per move. A robot goes far in many small steps, so one step of it is too short for a move."""


class WalkingDistance(Distance):
    """d(s, g) along the edges of a landmark graph.

    ``landmarks``, ``half_segments``: see `edl.graph.weighted_graph.WeightedGraph`.
    ``connected``            whether a landmark is in the largest connected component; the others are ignored.
    ``starts``               whether explored episodes started at a landmark.
    ``path_lengths``         the lengths of the shortest paths between landmarks.
    ``visible``              the landmarks visible from each landmark, the nearest first.
    ``reference_states``     explored states, which locate a state without an episode, e.g. a goal.
    ``reference_landmarks``  the landmark that the episode of each reference state was at.
    ``goal_distances``       after `for_goals`: the distances from all landmarks to each goal. The goals are then the
                             reference states.
    """

    unit: Float[Array, " s"]
    landmarks: Float[Array, "m s"]
    half_segments: Float[Array, "m s"]
    connected: Bool[Array, " m"]
    starts: Bool[Array, " m"]
    path_lengths: Float[Array, "m m"]
    visible: Int[Array, "m k"]
    reference_states: Float[Array, "n s"]
    reference_landmarks: Int[Array, " n"]
    goal_distances: Float[Array, "n m"] | None = None

    def along(self, path: Float[Array, "t1 s"], goal: Float[Array, " s"]) -> Float[Array, " t1"]:
        """Follow an episode from landmark to landmark, and measure the distance to the goal at each state."""
        return self.along_part(self.start(path[0]), path, goal)[0]

    def start(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The landmark at which an episode starts."""
        return self.first_landmark(state / self.unit)

    def along_part(
        self, memory: Int[Array, ""], path: Float[Array, "t1 s"], goal: Float[Array, " s"]
    ) -> tuple[Float[Array, " t1"], Int[Array, ""]]:
        """The same for a part of an episode. ``memory`` is the landmark that the episode is at when the part begins."""
        path, goal = path / self.unit, goal / self.unit
        to_goal = self.distances_to(goal)

        def measure(state: Float[Array, " s"], landmark: Int[Array, ""]) -> Scalar:
            gaps, nearby = self.nearby_landmarks(state, landmark)
            walking, straight = jnp.min(gaps + to_goal[nearby]), jnp.linalg.norm(state - goal)
            goal_is_visible = (straight <= SIGHT_RADIUS) & (walking <= MAX_DETOUR * straight + SIGHT_SLACK)
            return jnp.where(goal_is_visible, straight, walking)

        landmarks = self.follow(path, to_goal, memory)
        distances = jax.vmap(measure)(path, landmarks)
        return distances * self.scale, landmarks[-1]

    @property
    def scale(self) -> Scalar:
        """The length of a typical move, in the unit of the result of `along`."""
        return jnp.exp(jnp.mean(jnp.log(self.unit)))

    def confirms(self, distance: Scalar, state: Float[Array, " s"], goal: Float[Array, " s"]) -> Bool[Array, ""]:
        """Whether no wall is between a state and a goal: the walk is at most `WALL_DETOUR` longer than the line.

        In more than two dimensions, where paths along landmarks are longer than needed, every state is confirmed.
        """
        if state.shape[-1] != 2:
            return jnp.bool_(True)
        straight = jnp.linalg.norm((state - goal) / self.unit)
        return distance / self.scale <= straight + WALL_DETOUR

    def for_goals(self, goals: Float[Array, "k s"]) -> "WalkingDistance":
        """The same distance for these goals only: each goal is located once instead of once per episode."""
        goals = goals / self.unit
        landmarks, distances = jax.lax.map(lambda goal: (self.landmark_of(goal), self.distances_to(goal)), goals)
        return dataclasses.replace(
            self, reference_states=goals, reference_landmarks=landmarks, goal_distances=distances
        )

    def distances_to(self, goal: Float[Array, " s"]) -> Float[Array, " m"]:
        """The distance from each landmark to a goal."""
        if self.goal_distances is not None:
            return self.goal_distances[self.nearest_reference(goal)]
        gaps, nearby = self.nearby_landmarks(goal, self.landmark_of(goal))
        return jnp.min(self.path_lengths[nearby] + gaps[:, None], axis=0)

    def nearby_landmarks(
        self, state: Float[Array, " s"], landmark: Int[Array, ""]
    ) -> tuple[Float[Array, " k"], Int[Array, " k"]]:
        """Distances from a state to the landmarks visible from its own (infinite if not near), and those landmarks."""
        visible = self.visible[landmark]
        gaps = jnp.sqrt(squared_distances_to_rows(state, self.landmarks, visible))
        return jnp.where(gaps <= jnp.maximum(NEARBY_RADIUS, jnp.min(gaps)), gaps, jnp.inf), visible

    def landmark_of(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The landmark of a state without an episode: that of the nearest reference state."""
        return self.reference_landmarks[self.nearest_reference(state)]

    def nearest_reference(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The row of the nearest reference state."""
        return jnp.argmin(squared_distances(state, self.reference_states))

    def follow(
        self,
        path: Float[Array, "t1 s"],
        to_goal: Float[Array, " m"] | None = None,
        first: Int[Array, ""] | None = None,
    ) -> Int[Array, " t1"]:
        """The landmark that an episode is at, for each of its states.

        ``to_goal`` are the distances from all landmarks to a goal. With them, an ambiguous position is the one that is
        farthest from the goal; without them, it is the closest landmark. ``first`` is the landmark of the first state,
        if the path is not a whole episode.
        """
        first = self.first_landmark(path[0]) if first is None else first

        def move(landmark: Int[Array, ""], step: tuple) -> tuple[Int[Array, ""], Int[Array, ""]]:
            state, crosses, crossed = step
            visible = self.visible[landmark]
            stays = jnp.sum((self.landmarks[landmark] - state) ** 2) <= LANDMARK_RADIUS**2
            gaps = jnp.sqrt(squared_distances_to_rows(state, self.landmarks, visible))
            if to_goal is None:
                moves_to = visible[jnp.argmin(gaps)]
            else:
                possible = gaps <= jnp.min(gaps) + AMBIGUITY_RADIUS
                moves_to = visible[jnp.argmax(jnp.where(possible, to_goal[visible], -jnp.inf))]
            landmark = jnp.where(crosses, crossed, jnp.where(stays, landmark, moves_to))
            return landmark, landmark

        _, landmarks = jax.lax.scan(move, first, (path[1:], *self.last_crossed(path)))
        return jnp.concatenate([first[None], landmarks])

    def last_crossed(self, path: Float[Array, "t1 s"]) -> tuple[Bool[Array, " t"], Int[Array, " t"]]:
        """Whether each move crosses a landmark's segment, and the landmark that it crosses last."""
        if path.shape[-1] != 2:
            none = jnp.zeros(path.shape[0] - 1, jnp.int32)
            return none > 0, none
        fractions = crossing_points(path[:-1], path[1:], self.landmarks, self.half_segments)
        return last_crossing(jnp.where(self.connected, fractions, -1.0))

    def first_landmark(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """The landmark at which an episode starts: one where explored episodes started, if one is close."""
        gaps = squared_distances(state, self.landmarks)
        start = jnp.argmin(jnp.where(self.starts, gaps, jnp.inf))
        nearest = jnp.argmin(jnp.where(self.connected, gaps, jnp.inf))
        return jnp.where(self.starts[start] & (gaps[start] <= (2 * LANDMARK_RADIUS) ** 2), start, nearest)


def squared_distances_to_rows(
    state: Float[Array, " s"], points: Float[Array, "n s"], rows: Int[Array, " k"]
) -> Float[Array, " k"]:
    """Squared distances from a state to some rows of ``points``.

    Computed column by column: on a CPU, a sum over an axis as short as that of a state takes seven times as long.
    """
    return sum((points[:, i][rows] - state[i]) ** 2 for i in range(state.shape[0]))  # type: ignore[return-value]


def last_crossing(fractions: Float[Array, "n m"]) -> tuple[Bool[Array, " n"], Int[Array, " n"]]:
    """Whether any fraction of a move is not negative, and the column of the largest fraction.

    On a CPU this takes a third of the time of `jnp.argmax`: a fraction and its column are combined into one number, so
    that one maximum finds both. Fractions that differ by less than about 2^-13 count as equal.
    """
    bits = max(fractions.shape[1] - 1, 1).bit_length()
    columns = jnp.arange(fractions.shape[1], dtype=jnp.uint32)
    words = jax.lax.bitcast_convert_type(1.0 + fractions, jnp.uint32) >> bits << bits | columns
    largest = jnp.max(jax.lax.bitcast_convert_type(jnp.where(fractions >= 0, words, 0), jnp.float32), axis=1)
    column = jax.lax.bitcast_convert_type(largest, jnp.uint32) & ((1 << bits) - 1)
    return largest > 0, column.astype(jnp.int32)


def walking_distance(key: Key, experience: Experience, config: WalkingConfig) -> WalkingDistance:
    """Build the landmark graph, find all shortest paths, and locate explored states in the graph."""
    episode_key, landmark_key, state_key = jax.random.split(key, 3)
    paths, valid = sample_episodes(episode_key, with_stride(experience, config.stride), config.episodes)
    unit = typical_move(paths, valid)
    paths = paths / unit
    graph = weighted_graph(landmark_key, paths, valid, config.landmarks, config.spacing)
    path_lengths = floyd_warshall(graph.edge_lengths)
    hub = jnp.argmax(jnp.sum(jnp.isfinite(path_lengths) & graph.used, axis=1))
    connected = jnp.isfinite(path_lengths[hub]) & graph.used
    path_lengths = jnp.where(connected[:, None] & connected, path_lengths, jnp.inf)
    without_references = WalkingDistance(
        unit=unit,
        landmarks=graph.landmarks,
        half_segments=graph.half_segments,
        connected=connected,
        starts=graph.starts & connected,
        path_lengths=path_lengths,
        visible=visible_landmarks(graph.landmarks, path_lengths, min(config.neighbours, config.landmarks)),
        reference_states=jnp.zeros((1, paths.shape[-1])),
        reference_landmarks=jnp.zeros(1, jnp.int32),
    )
    states, landmarks = locate_states(state_key, paths, valid, without_references)
    return eqx.tree_at(lambda d: (d.reference_states, d.reference_landmarks), without_references, (states, landmarks))


def with_stride(experience: Experience, stride: int) -> Experience:
    """Every ``stride``-th state of each episode. The first action of each move stands for the move."""
    steps = experience.paths.shape[1] - 1
    check(
        1 <= stride <= steps,
        f"walking.stride must be between 1 and the {steps} steps of an episode (got {stride}). "
        "Change --learner.walking.stride.",
    )
    if stride == 1:
        return experience
    moves = steps // stride
    return Experience(
        paths=experience.paths[:, : moves * stride + 1 : stride],
        actions=experience.actions[:, : moves * stride : stride],
        lengths=experience.lengths // stride,
    )


def visible_landmarks(
    landmarks: Float[Array, "m s"], path_lengths: Float[Array, "m m"], count: int
) -> Int[Array, "m k"]:
    """The nearest ``count`` landmarks visible from each. If there are fewer, the landmark itself fills the row."""
    straight = jnp.linalg.norm(landmarks[:, None] - landmarks, axis=-1)
    visible = path_lengths <= MAX_DETOUR * straight + DETOUR_SLACK
    negative_lengths, nearest = jax.lax.top_k(-jnp.where(visible, path_lengths, jnp.inf), count)
    return jnp.where(negative_lengths > -jnp.inf, nearest, jnp.arange(landmarks.shape[0])[:, None])


def locate_states(
    key: Key, paths: Float[Array, "e t1 s"], valid: Bool[Array, "e t"], distance: WalkingDistance
) -> tuple[Float[Array, "n s"], Int[Array, " n"]]:
    """A random choice of at most `MAX_REFERENCE_STATES` visited states, and the landmarks of their episodes."""
    landmarks = jax.lax.map(distance.follow, paths, batch_size=EPISODES_PER_BATCH)[:, 1:].reshape(-1)
    states = jnp.where(valid[..., None], paths[:, 1:], UNREACHED).reshape(-1, paths.shape[-1])
    chosen = jax.random.permutation(key, states.shape[0])[:MAX_REFERENCE_STATES]
    return states[chosen], landmarks[chosen]


def sample_episodes(
    key: Key, experience: Experience, max_episodes: int
) -> tuple[Float[Array, "e t1 s"], Bool[Array, "e t"]]:
    """A random choice of at most ``max_episodes`` episodes, and which of their moves are valid.

    Their number is a multiple of `EPISODES_PER_BATCH`; if there are too few episodes, some are repeated.
    """
    total = experience.paths.shape[0]
    count = max(min(total, max_episodes) // EPISODES_PER_BATCH, 1) * EPISODES_PER_BATCH
    chosen = jax.random.permutation(key, jnp.arange(max(total, count)) % total)[:count]
    paths, lengths = experience.paths[chosen], experience.lengths[chosen]
    return paths, jnp.arange(paths.shape[1] - 1) < lengths[:, None]

"""Move goals that are badly placed in walking distance: the objective of stage 2 again, with the other distance.

Discovery knows states but not paths. A code whose states lie on both sides of a thin wall has its goal between them,
and the nearest explored state may be on the wrong side, so that a room has no goal. `place` minimises what the VQ-VAE
minimised, but in walking distance: the mean distance from p(s) to the nearest goal,

    J(g_1 .. g_K) = E_{s ~ p(s)} min_k d(s, g_k),        g_k one of the explored states that q(z|s) assigns to code k.

It moves one goal at a time, the one that lowers J most. A goal stays at argmax_s q(s|z), where the paper has it, if a
move would lower J only a little: in open rooms no goal moves, and a blend of codes still leads to a blend of goals.

A goal close to a thin wall then moves away from it, in the plane. From the other side the goal looks near, and near the
end of a wall the estimated walking distance may not know the difference: a skill that rests on the wrong side would be
counted as successful. The walls are not read. The *clearance* of a place x is the radius of the largest disc about x
in which no explored states i and j are separated by a wall,

    c(x) = min_{i,j} max(|x - i|, |x - j|),        where the path from i to j is much longer than the straight line.

It does not depend on where x itself was located, which is what may be wrong.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillModel
from edl.learn.distance import Distance
from edl.learn.walking import WALL_DETOUR, WalkingDistance
from edl.nets.linalg import squared_distances
from edl.types import Scalar

MAX_CANDIDATES = 1024
"""Maximum number of explored states that represent p(s), and to which goals may move."""
MOVES_PER_GOAL = 2
"""Maximum number of moves, per goal. Rarely more than a third of the goals move."""
MIN_SAVING = 0.2
"""A goal moves if the move lowers J by at least this fraction of J / K. Measured with 10 skills: goals on the wrong
side of a wall of the smallest room of the bottleneck maze cost 0.45 to 1.6 of J / K (22 seeds); in the open square
maze, where no goal should move, no move saves 0.1."""
MIN_CLEARANCE = 0.5
"""A goal with less clearance than this moves, in typical moves: about 0.25 cells in the mazes. Measured with the goals
of 7 explorations of bottleneck and of three random mazes: 19 of 70 move, by 0.16 cells on average. Before, the other
side of a wall has an estimated distance below 0.25 cells to 3 of the goals; after, to none."""
MAX_SHIFT = 1.0
"""Maximum distance by which a goal moves away from a wall, in typical moves."""
SHIFT_CANDIDATES = 64
"""Maximum number of explored states to which a goal may move away from a wall: the nearest."""
MAX_WITNESSES = 16384
"""Maximum number of located states from which the clearances near a goal are computed: the nearest. A sixth of the
explored states, chosen at random, was too few: they miss a wall where the explorer has seldom been. Measured at 420
explored states of the same 7 explorations: of the 51 states within 0.2 cells of the other side of a wall, none has a
clearance above 0.3 cells; of the 313 states at more than 0.4 cells, 37 have one below 0.25."""
MAX_SIDES = 64
"""Maximum number of landmarks whose states are compared: the nearest."""


def place(skills: SkillModel, samples: Float[Array, "n s"], distance: Distance) -> SkillModel:
    """Move goals to lower J, and then away from thin walls.

    The skills are unchanged if they are continuous or if distance is not walking distance.
    """
    if skills.continuous or not isinstance(distance, WalkingDistance):
        return skills
    num_skills, total = skills.num_skills, samples.shape[0]
    candidates = samples[np.linspace(0, total - 1, min(MAX_CANDIDATES, total)).astype(int)]
    places = jnp.concatenate([skills.goals, candidates])
    codes = jnp.concatenate([jnp.arange(num_skills), jax.vmap(skills.assign)(candidates)])
    to_places = distance.for_goals(places)
    assert to_places.goal_distances is not None  # for_goals computes them
    mass = jnp.zeros(distance.connected.shape[0])
    mass = mass.at[to_places.reference_landmarks[num_skills:]].add(1.0 / candidates.shape[0])
    chosen = choose_places(to_places.goal_distances, codes, mass, num_skills)
    placed = dataclasses.replace(skills, goals=places[chosen])
    return placed if samples.shape[1] != 2 else move_from_walls(placed, samples, distance)


def move_from_walls(skills: SkillModel, samples: Float[Array, "n 2"], distance: WalkingDistance) -> SkillModel:
    """Move each goal with little clearance to the nearest sample that has enough, or else to the one that has most.

    The sample has the code of the skill, and no wall is between them. A goal that has enough clearance stays.
    """
    walls = walls_between(distance)

    def move(skill: tuple[Int[Array, ""], Float[Array, " 2"]]) -> Float[Array, " 2"]:
        code, goal = skill
        _, nearest = jax.lax.top_k(-squared_distances(goal, samples), min(SHIFT_CANDIDATES, samples.shape[0]))
        places = jnp.concatenate([goal[None], samples[nearest]])
        located, near = places / distance.unit, nearest_references(goal / distance.unit, distance)
        shifts = jnp.linalg.norm(located - located[0], axis=1)
        codes, landmarks = jax.vmap(skills.assign)(places), jax.vmap(near.landmark_of)(located)
        allowed = (shifts <= MAX_SHIFT) & (codes.at[0].set(code) == code) & ~walls[landmarks[0], landmarks]
        enough = jnp.minimum(clearances(located, walls, near), MIN_CLEARANCE)
        best = jnp.max(jnp.where(allowed, enough, -1.0))
        return places[jnp.argmin(jnp.where(allowed & (enough >= best), shifts, jnp.inf))]

    return dataclasses.replace(skills, goals=jax.lax.map(move, (jnp.arange(skills.num_skills), skills.goals)))


def walls_between(distance: WalkingDistance) -> Bool[Array, "m m"]:
    """Whether a wall is between two landmarks: the path is more than `WALL_DETOUR` longer than the straight line."""
    straight = jnp.linalg.norm(distance.landmarks[:, None] - distance.landmarks, axis=-1)
    return jnp.isfinite(distance.path_lengths) & (distance.path_lengths > straight + WALL_DETOUR)


def nearest_references(place: Float[Array, " 2"], distance: WalkingDistance) -> WalkingDistance:
    """The same distance with the reference states nearest to a place only."""
    count = min(MAX_WITNESSES, distance.reference_states.shape[0])
    _, near = jax.lax.top_k(-squared_distances(place, distance.reference_states), count)
    states, landmarks = distance.reference_states[near], distance.reference_landmarks[near]
    return dataclasses.replace(distance, reference_states=states, reference_landmarks=landmarks)


def clearances(places: Float[Array, "n 2"], walls: Bool[Array, "m m"], distance: WalkingDistance) -> Float[Array, " n"]:
    """c(x) of each place, in typical moves. It is infinite if no wall is near."""
    states, landmarks = distance.reference_states, distance.reference_landmarks

    def clearance(place: Float[Array, " 2"]) -> Scalar:
        gaps = jnp.full(walls.shape[0], jnp.inf).at[landmarks].min(jnp.sqrt(squared_distances(place, states)))
        negative_gaps, sides = jax.lax.top_k(-gaps, min(MAX_SIDES, walls.shape[0]))
        radii = jnp.maximum(-negative_gaps[:, None], -negative_gaps)
        return jnp.min(jnp.where(walls[sides[:, None], sides], radii, jnp.inf))

    return jax.lax.map(clearance, places, batch_size=8)


def choose_places(
    distances: Float[Array, "c m"], codes: Int[Array, " c"], mass: Float[Array, " m"], num_skills: int
) -> Int[Array, " k"]:
    """The rows of the places of all goals, by steepest descent on J. Goal k starts at row k.

    ``distances`` are from each landmark to each place, ``codes`` are the codes of the places, and ``mass`` is the share
    of p(s) at each landmark.
    """

    def mean(distances: Float[Array, "*c m"]) -> Float[Array, "*c"]:
        return jnp.sum(jnp.where(mass > 0, mass * distances, 0.0), axis=-1)

    def move(state: tuple[Int[Array, " k"], Int[Array, ""]]) -> tuple[Int[Array, " k"], Int[Array, ""]]:
        chosen, left = state
        to_goals = distances[chosen]
        nearest = jnp.arange(num_skills)[:, None] == jnp.argmin(to_goals, axis=0)
        first, second = jnp.min(to_goals, axis=0), jnp.min(jnp.where(nearest, jnp.inf, to_goals), axis=0)
        without_goal = jnp.where(nearest, second, first)  # distance to the nearest goal other than k
        costs = mean(jnp.minimum(distances, without_goal[codes]))
        cost, best = mean(first), jnp.argmin(costs)
        worthwhile = costs[best] < (1.0 - MIN_SAVING / num_skills) * cost
        moved = chosen.at[codes[best]].set(jnp.where(worthwhile, best, chosen[codes[best]]))
        return moved, jnp.where(worthwhile, left - 1, 0)  # where no move is worthwhile, none will be

    start = (jnp.arange(num_skills), jnp.int32(MOVES_PER_GOAL * num_skills))
    return jax.lax.while_loop(lambda state: state[1] > 0, move, start)[0]

"""Move goals that are badly placed in walking distance: the objective of stage 2 again, with the other distance.

Discovery knows states but not paths. A code whose states lie on both sides of a thin wall has its goal between them,
and the nearest explored state may be on the wrong side, so that a room has no goal. `place` minimises what the VQ-VAE
minimised, but in walking distance: the mean distance from p(s) to the nearest goal,

    J(g_1 .. g_K) = E_{s ~ p(s)} min_k d(s, g_k),        g_k one of the explored states that q(z|s) assigns to code k.

It moves one goal at a time, the one that lowers J most. A goal stays at argmax_s q(s|z), where the paper has it, if a
move would lower J only a little: in open rooms no goal moves, and a blend of codes still leads to a blend of goals.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillModel
from edl.learn.distance import Distance
from edl.learn.walking import WalkingDistance

MAX_CANDIDATES = 1024
"""Maximum number of explored states that represent p(s), and to which goals may move."""
MOVES_PER_GOAL = 2
"""Maximum number of moves, per goal. Rarely more than a third of the goals move."""
MIN_SAVING = 0.2
"""A goal moves if the move lowers J by at least this fraction of J / K. Measured with 10 skills: goals on the wrong
side of a wall of the smallest room of the bottleneck maze cost 0.45 to 1.6 of J / K (22 seeds); in the open square
maze, where no goal should move, no move saves 0.1."""


def place(skills: SkillModel, samples: Float[Array, "n s"], distance: Distance) -> SkillModel:
    """Move goals to lower J. The skills are unchanged if they are continuous or if distance is not walking distance."""
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
    return dataclasses.replace(skills, goals=places[choose_places(to_places.goal_distances, codes, mass, num_skills)])


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

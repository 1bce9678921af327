"""Distances from the last states of skills to their goals and to any point, and distances between sets of skills.

``last`` are the last states of ``n`` rollouts of each of ``k`` skills, and ``to_goals`` their distances to the skill's
own goal. ``distances`` are those from the last states to ``m`` uniform reachable points.
"""

import numpy as np
from jaxtyping import Float, Int

from edl.envs.success import SUCCESS_RADIUS
from edl.evaluate.geodesic import PairedDistance, PairwiseDistance, euclidean


def distances_to_goals(
    last: Float[np.ndarray, "k n s"], goals: Float[np.ndarray, "k s"], paired: PairedDistance
) -> Float[np.ndarray, "k n"]:
    """The distance from the last state of each rollout to the goal of its skill."""
    num_skills, num, size = last.shape
    return paired(last.reshape(-1, size), np.repeat(goals, num, axis=0)).reshape(num_skills, num)


def goal_distance(to_goals: Float[np.ndarray, "k n"]) -> float:
    """Mean distance from the last state to the skill's goal."""
    return float(np.mean(to_goals))


def success_per_skill(to_goals: Float[np.ndarray, "k n"], within: float = SUCCESS_RADIUS) -> Float[np.ndarray, " k"]:
    """Share of the rollouts of each skill that end within ``within`` of its goal."""
    return np.mean(to_goals <= within, axis=1)


def goal_success(to_goals: Float[np.ndarray, "k n"], within: float = SUCCESS_RADIUS) -> float:
    """Share of all rollouts that end within ``within`` of the skill's goal."""
    return float(np.mean(to_goals <= within))


def worst_skill_success(to_goals: Float[np.ndarray, "k n"], within: float = SUCCESS_RADIUS) -> float:
    """The lowest success of any skill."""
    return float(np.min(success_per_skill(to_goals, within)))


def best_skill_distance(distances: Float[np.ndarray, "k n m"]) -> float:
    """mean_x min_z mean_i d(s_T^(z,i), x): the distance to x after the best skill for x, picked in hindsight."""
    return float(np.mean(np.min(np.mean(distances, axis=1), axis=0)))


def zero_shot_distance(distances: Float[np.ndarray, "k n m"], picks: Int[np.ndarray, " m"]) -> float:
    """mean_x mean_i d(s_T^(z(x),i), x), where z(x) is the skill that the run itself picks (`edl.evaluate.picking`)."""
    return float(np.mean(np.mean(distances, axis=1)[picks, np.arange(len(picks))]))


def hausdorff(
    x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: PairwiseDistance = euclidean
) -> float:
    """max( max_x min_y d(x, y), max_y min_x d(x, y) ): the largest distance from a point to the other set.

    ``x`` and ``y`` are two sets of skills, one end point per skill in any order. A metric if d is one.
    """
    pairs = _all_pairs(x, y, distance)
    return float(max(np.max(np.min(pairs, axis=1)), np.max(np.min(pairs, axis=0))))


def transport(
    x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: PairwiseDistance = euclidean
) -> float:
    """W_1, the least mean distance over which the points of one set can be moved onto those of the other.

    ``x`` and ``y`` are two sets of skills, as for `hausdorff`; every skill has the same weight. For sets of different
    sizes each point is repeated up to the least common multiple, which turns optimal transport between uniform
    weights into an assignment.
    """
    from scipy.optimize import linear_sum_assignment  # imported here because few runs need SciPy

    pairs = _all_pairs(x, y, distance)
    size = np.lcm(*pairs.shape)
    pairs = np.repeat(np.repeat(pairs, size // pairs.shape[0], axis=0), size // pairs.shape[1], axis=1)
    return float(np.mean(pairs[linear_sum_assignment(pairs)]))


def _all_pairs(
    x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: PairwiseDistance
) -> Float[np.ndarray, "n m"]:
    return np.asarray(distance(np.asarray(x, float), np.asarray(y, float)), float)

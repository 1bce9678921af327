"""How close skills come to where they should go, and to wherever a user might want to be.

``last`` are the last states of ``n`` rollouts of each of ``k`` skills.
"""

import numpy as np
from jaxtyping import Float, Int

REACHED = 0.5
"""A rollout that ends this close to its goal has reached it."""


def goal_distance(last: Float[np.ndarray, "k n s"], goals: Float[np.ndarray, "k s"]) -> float:
    """Mean Euclidean distance from the last state to the skill's goal."""
    return float(np.mean(_to_goal(last, goals)))


def goal_success(last: Float[np.ndarray, "k n s"], goals: Float[np.ndarray, "k s"], within: float = REACHED) -> float:
    """Share of the rollouts that end within ``within`` of the skill's goal."""
    return float(np.mean(_to_goal(last, goals) <= within))


def zero_shot_distance(distances: Float[np.ndarray, "k n m"]) -> float:
    """mean_x min_z mean_i d(s_T^(z,i), x): I want to be at x; I pick the best skill; how far away do I end?

    ``distances`` are those from the last states to ``m`` uniform reachable points.
    """
    return float(np.mean(np.min(np.mean(distances, axis=1), axis=0)))


def picked_distance(distances: Float[np.ndarray, "k n m"], picks: Int[np.ndarray, " m"]) -> float:
    """The same where the skill is picked without trying: mean_x mean_i d(s_T^(z(x),i), x), z(x) = argmax_z q(z|x)."""
    return float(np.mean(np.mean(distances, axis=1)[picks, np.arange(len(picks))]))


def _to_goal(last: Float[np.ndarray, "k n s"], goals: Float[np.ndarray, "k s"]) -> Float[np.ndarray, "k n"]:
    return np.linalg.norm(last - goals[:, None], axis=-1)

"""How far two sets of skills are apart: does another start, seed or method discover the same behaviours?

A set of skills is the set of states in which they end, one point for each skill; which skill has which number means
nothing. Both distances are therefore between unordered sets, and both are metrics if d is one.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from edl.evaluate.geodesic import euclidean

Distance = Callable[[Float[np.ndarray, "n s"], Float[np.ndarray, "m s"]], Float[np.ndarray, "n m"]]


def hausdorff(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: Distance = euclidean) -> float:
    """max( max_x min_y d(x, y), max_y min_x d(x, y) ): how far the loneliest skill is from any of the other set."""
    gaps = _gaps(x, y, distance)
    return float(max(np.max(np.min(gaps, axis=1)), np.max(np.min(gaps, axis=0))))


def transport(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: Distance = euclidean) -> float:
    """W_1, the least mean distance over which the skills of one set can be moved onto those of the other.

    Every skill weighs the same. For sets of different sizes each point is repeated up to the least common multiple,
    which turns optimal transport between uniform weights into an assignment.
    """
    from scipy.optimize import linear_sum_assignment  # not every run compares sets of states

    gaps = _gaps(x, y, distance)
    size = np.lcm(*gaps.shape)
    gaps = np.repeat(np.repeat(gaps, size // gaps.shape[0], axis=0), size // gaps.shape[1], axis=1)
    return float(np.mean(gaps[linear_sum_assignment(gaps)]))


def _gaps(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"], distance: Distance) -> Float[np.ndarray, "n m"]:
    return np.asarray(distance(np.asarray(x, float), np.asarray(y, float)), float)

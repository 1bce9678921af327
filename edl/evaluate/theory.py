"""The paper's appendix, "Theoretical analysis of existing methods": the reward under perfect density models.

With N skills, a uniform prior and perfect estimates of the densities that the policy induces, both forms of the mutual
information give the same reward:

    reverse   r(s,z) = log rho(z|s) + log N,                                     rho(z|s) = 1/N where s is unseen,
    forward   r(s,z) = lim_{eps -> 0} log (rho(s|z) + eps) / mean_i (rho(s|z_i) + eps).

A state that only one skill visits has reward log N for that skill. An unseen state has reward 0 for all skills. A state
that only other skills visit has reward -infinity.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from edl.envs.gridworld import MOVES

TileValues = Float[np.ndarray, "k h w"]
"""One value per skill and tile; row 0 is the bottom row."""


class Landscape(NamedTuple):
    """rho(s|z) of the skills on a gridworld, and the reward of each form of the mutual information."""

    visits: TileValues
    reverse: TileValues
    forward: TileValues


def reverse_landscape(visits: Float[np.ndarray, "k ..."]) -> Float[np.ndarray, "k ..."]:
    """log rho(z|s) + log N, where rho(z|s) follows from Bayes' rule and is uniform for unseen states."""
    total = np.sum(visits, axis=0)
    seen = total > 0
    posterior = np.where(seen, visits / np.where(seen, total, 1.0), 1 / len(visits))
    with np.errstate(divide="ignore"):
        return np.log(posterior) + np.log(len(visits))


def forward_landscape(visits: Float[np.ndarray, "k ..."], epsilon: float = 1e-300) -> Float[np.ndarray, "k ..."]:
    """log rho(s|z) - log 1/N sum_i rho(s|z_i), with a tiny epsilon added to all densities."""
    return np.log(visits + epsilon) - np.log(np.mean(visits + epsilon, axis=0))


def state_distribution(
    policy: Float[np.ndarray, " a"], width: int, height: int, horizon: int
) -> Float[np.ndarray, "h w"]:
    """The exact rho(s) of s_1 .. s_T for a policy with the same action probabilities in every tile of a gridworld."""
    now = np.zeros((height, width))
    now[height // 2, width // 2] = 1.0
    visits = np.zeros_like(now)
    for _ in range(horizon):
        now = np.sum([share * _moved(now, *move) for share, move in zip(policy, MOVES, strict=True)], axis=0)
        visits += now
    return visits / horizon


def gridworld_landscape(width: int = 11, height: int = 11, horizon: int = 4) -> Landscape:
    """The paper's example: two skills that start in the central tile; one drifts left, the other right.

    The actions are stay, right, up, left, down. Both skills also step up and down, so they share the start's column.
    The horizon is too short to reach the border, so some tiles are never seen.
    """
    left, right = [0.0, 0.0, 0.15, 0.7, 0.15], [0.0, 0.7, 0.15, 0.0, 0.15]
    visits = np.stack([state_distribution(np.array(p), width, height, horizon) for p in (left, right)])
    return Landscape(visits, reverse_landscape(visits), forward_landscape(visits))


def _moved(mass: Float[np.ndarray, "h w"], right: int, up: int) -> Float[np.ndarray, "h w"]:
    """The mass after one step in this direction; mass that would cross the border stays."""
    height, width = mass.shape
    rows, columns = np.mgrid[:height, :width]
    moved = np.zeros_like(mass)
    np.add.at(moved, (np.clip(rows + up, 0, height - 1), np.clip(columns + right, 0, width - 1)), mass)
    return moved

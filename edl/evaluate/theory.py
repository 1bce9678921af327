"""The paper's appendix, "Theoretical analysis of existing methods": what perfect densities would pay.

With N skills, a uniform prior and perfect estimates of what the policy induces, both forms of the mutual information
pay the same:

    reverse   r(s,z) = log rho(z|s) + log N,                                     rho(z|s) = 1/N where s is unseen,
    forward   r(s,z) = lim_{eps -> 0} log (rho(s|z) + eps) / mean_i (rho(s|z_i) + eps).

A state that one skill visits alone pays log N to that skill; one that nobody has seen pays 0 to all. A known state that
other skills visit, and this one never, pays -infinity.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from edl.envs.gridworld import MOVES

Grid = Float[np.ndarray, "k h w"]
"""A number for every skill and tile; the first row of tiles is the lowest."""


class Landscape(NamedTuple):
    """What skills do on a gridworld, rho(s|z), and what either form of the mutual information would pay them."""

    visits: Grid
    reverse: Grid
    forward: Grid


def reverse_landscape(visits: Float[np.ndarray, "k ..."]) -> Float[np.ndarray, "k ..."]:
    """log rho(z|s) + log N, with Bayes' rule for rho(z|s) and the uniform distribution for states never seen."""
    total = np.sum(visits, axis=0)
    seen = total > 0
    posterior = np.where(seen, visits / np.where(seen, total, 1.0), 1 / len(visits))
    with np.errstate(divide="ignore"):
        return np.log(posterior) + np.log(len(visits))


def forward_landscape(visits: Float[np.ndarray, "k ..."], epsilon: float = 1e-300) -> Float[np.ndarray, "k ..."]:
    """log rho(s|z) - log 1/N sum_i rho(s|z_i), both with epsilon added: by default as small as numbers get."""
    return np.log(visits + epsilon) - np.log(np.mean(visits + epsilon, axis=0))


def state_distribution(
    policy: Float[np.ndarray, " a"], width: int, height: int, horizon: int
) -> Float[np.ndarray, "h w"]:
    """rho(s) of s_1 .. s_T, exactly, of one policy that acts alike in every tile of `edl.envs.gridworld.gridworld`."""
    now = np.zeros((height, width))
    now[height // 2, width // 2] = 1.0
    visits = np.zeros_like(now)
    for _ in range(horizon):
        now = np.sum([share * _moved(now, *move) for share, move in zip(policy, MOVES, strict=True)], axis=0)
        visits += now
    return visits / horizon


def gridworld_landscape(width: int = 11, height: int = 11, horizon: int = 4) -> Landscape:
    """The paper's example: two skills that start in the central tile, one of which drifts left and the other right.

    Stay, right, up, left, down are the actions. Both skills may step up and down, so they share the start's column, and
    a horizon shorter than the way to the border leaves tiles that neither has seen.
    """
    left, right = [0.0, 0.0, 0.15, 0.7, 0.15], [0.0, 0.7, 0.15, 0.0, 0.15]
    visits = np.stack([state_distribution(np.array(p), width, height, horizon) for p in (left, right)])
    return Landscape(visits, reverse_landscape(visits), forward_landscape(visits))


def _moved(mass: Float[np.ndarray, "h w"], right: int, up: int) -> Float[np.ndarray, "h w"]:
    """Where the mass goes if all of it takes one step; the border keeps what would cross it."""
    height, width = mass.shape
    rows, columns = np.mgrid[:height, :width]
    moved = np.zeros_like(mass)
    np.add.at(moved, (np.clip(rows + up, 0, height - 1), np.clip(columns + right, 0, width - 1)), mass)
    return moved

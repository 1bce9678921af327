"""How much of a maze can be reached in one episode, and the horizon that would reach all of it."""

import math

import numpy as np

from edl.envs.layouts import Layout
from edl.envs.maze import MAX_ACTION
from edl.evaluate.geodesic import Geodesic

SLACK = 1.3
"""An episode of a skill is this much longer than the straight walk, because skills do not walk perfectly."""


def horizon_note(layout: Layout, horizon: int) -> str | None:
    """A sentence if the maze is longer than the horizon; None if every cell is within an episode's walk.

    A step is at most `MAX_ACTION` along each axis, so a walk along a corridor takes its length / `MAX_ACTION` steps.
    Diagonal steps are up to sqrt(2) times as long, so a walk through open space may take fewer.
    """
    walks = Geodesic.from_layout(layout).distance(np.asarray(layout.starts, float), np.asarray(layout.cells, float))
    steps = np.min(walks, axis=0) / MAX_ACTION
    share = float(np.mean(steps <= horizon))
    if share == 1.0:
        return None
    suggested = 10 * math.ceil(SLACK * float(np.max(steps)) / 10)
    return (
        f"an episode of {horizon} steps reaches about {100 * share:.0f} % of the maze. The farthest cell is about "
        f"{np.max(steps):.0f} steps away: use --horizon {suggested}."
    )

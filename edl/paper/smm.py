"""Figure 3, "Exploration with SMM": the square maze with and without an oracle."""

import numpy as np
from jaxtyping import Float

from edl.artifacts import States
from edl.envs.layouts import Layout
from edl.paper import recipes
from edl.paper.figure import BASELINES, LABELS, Made, PaperFigure, Picture, Runs, ends, first, note, scores
from edl.paper.library import numbers_of, play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, together, within

ENV = "square"
RIGHT = 2.5
"""x from which on it is the right side: the corridor that one has to walk round to get to."""
NEAR = 0.1
"""As close to a wall as this is near it."""


def needed(grid: Grid) -> dict[str, Recipe]:
    """Both baselines, and EDL with an oracle and with SMM."""
    return {
        **{method: recipes.baseline(grid, ENV, method) for method in BASELINES},
        "oracle": recipes.edl(grid, ENV, "oracle"),
        "smm": recipes.edl(grid, ENV, "smm"),
    }


def make(runs: Runs) -> Made:
    """Rollouts, and the share of skills that end on the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play(run) for label, run in runs.items()}
    layout = runs["oracle"].layout
    assert layout is not None
    sides = {label: right_share(ends(episodes)) for label, episodes in played.items()}
    walls = {label: wall_shares(layout, runs[label].states) for label in ("oracle", "smm")}

    def panel(label: str) -> Panel:
        run = runs[label]
        goals = None if run.skills is None else np.asarray(run.skills.goals[0])
        return Panel(layout, LABELS[label], note(run, "zero_shot_distance"), first(played[label]), goals)

    picture = panels_figure([[panel(label) for label in row] for row in (BASELINES, ("oracle", "smm"))])
    caption = "Top: baselines. Bottom: EDL with an oracle, and with State Marginal Matching in its place."
    numbers = {"runs": numbers_of(dict(runs)), "ends_on_the_right": sides, "samples_near_walls": walls}
    return Made({"": Picture(picture, caption)}, verdicts(runs, sides, walls), numbers)


def right_share(last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Share of the rollouts of each seed that end on the right side."""
    return np.mean(last[..., 0] > RIGHT, axis=(1, 2)).tolist()


def wall_shares(layout: Layout, states: States | None) -> list[float]:
    """Share of each seed's samples of p(s) that are near a wall."""
    assert states is not None
    samples = np.asarray(states.samples, float)
    return [float(np.mean(to_walls(layout, each) < NEAR)) for each in samples]


def to_walls(layout: Layout, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Distance of each point to the nearest wall."""
    start, way = layout.walls[:, 0], layout.walls[:, 1] - layout.walls[:, 0]
    along = np.einsum("nwd,wd->nw", points[:, None] - start, way) / np.sum(way**2, axis=1)
    nearest = start + np.clip(along, 0, 1)[..., None] * way
    return np.min(np.linalg.norm(points[:, None] - nearest, axis=-1), axis=1)


def verdicts(runs: Runs, sides: dict[str, list[float]], walls: dict[str, list[float]]) -> list[Verdict]:
    """The claims of the paper about exploration with SMM."""
    side = {label: Scores(LABELS[label], values) for label, values in sides.items()}
    distance = {label: scores(runs, label, "zero_shot_distance") for label in runs}
    what = "share of rollouts that end on the right side"
    return [
        together(
            "Baselines fail to discover skills that reach the right side of the maze.",
            [within("", what, side[label], high=0.05) for label in BASELINES],
        ),
        together(
            "EDL learns state-covering skills here, with an oracle.",
            [better("", "zero-shot distance", distance["oracle"], distance[x], lower=True) for x in BASELINES],
        ),
        together(
            "EDL learns state-covering skills even where an oracle is not available (SMM).",
            [better("", "zero-shot distance", distance["smm"], distance[x], lower=True) for x in BASELINES]
            + [better("", what, side["smm"], side[x]) for x in BASELINES],
        ),
        better(
            "SMM collects more samples near the walls than the oracle does.",
            f"share of samples within {NEAR} of a wall",
            *(Scores(LABELS[label], walls[label]) for label in ("smm", "oracle")),
        ),
    ]


FIGURE = PaperFigure("Exploration with SMM instead of an oracle", needed, make)

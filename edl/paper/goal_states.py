"""The appendix's figure of goal states: g_z = argmax_s q(s|z) of forward MI and of EDL.

The q(s|z) of forward MI is Gaussian with unit variance around a mean per skill. Its maximum-likelihood fit to a set
of visits is known in closed form, the mean of the states that the skill visits: that is q(s|z) at convergence,
whatever the model that was trained along with the policy has come to.
"""

import numpy as np
from jaxtyping import Float

from edl.evaluate import maze_yardstick
from edl.evaluate.evaluate import Yardstick
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import LABELS, Made, PaperFigure, Picture, Runs, first
from edl.paper.library import play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, together

SHOWN = ("forward_mi", "siblings", "ours")


def needed(grid: Grid) -> dict[str, Recipe]:
    """Forward MI, EDL as in the paper, and ours."""
    return {
        "forward_mi": recipes.baseline(grid, ENV, "forward_mi"),
        "siblings": recipes.edl(grid, ENV, "oracle", recipes.with_siblings(grid)),
        "ours": recipes.edl(grid, ENV, "frontier", recipes.on_foot(grid)),
    }


def make(runs: Runs) -> Made:
    """The goals over the rollouts that led to them, or were led by them."""
    from edl.figures.panels import Panel, panels_figure

    layout = runs["ours"].layout
    assert layout is not None
    played = {label: play(run) for label, run in runs.items()}
    goals = {label: np.asarray(run.skills.goals) for label, run in runs.items() if run.skills is not None}
    goals["forward_mi"] = visit_means(np.asarray(played["forward_mi"].features))
    yardstick = maze_yardstick(layout)
    away = {label: [to_nearest(yardstick, each) for each in goals[label]] for label in SHOWN}
    row = [
        Panel(
            layout,
            "Forward MI" if label == "forward_mi" else LABELS[label],
            f"a point of the maze is {away[label][0]:.2f} from the nearest goal",
            first(played[label]) if label == "forward_mi" else None,
            goals[label][0],
        )
        for label in SHOWN
    ]
    caption = "Goal states g_z = argmax q(s|z). Left, over the rollouts that q(s|z) is fitted to: forward MI. Then EDL."
    return Made({"": Picture(panels_figure([row]), caption)}, verdicts(away), {"to_nearest_goal": away})


def visit_means(features: Float[np.ndarray, "seeds k n t1 s"]) -> Float[np.ndarray, "seeds k s"]:
    """argmax_s q(s|z) of the unit Gaussian that is fitted to the visits of each skill."""
    return np.mean(features[..., 1:, :], axis=(2, 3))


def to_nearest(yardstick: Yardstick, goals: Float[np.ndarray, "k 2"]) -> float:
    """Mean walking distance from anywhere in the maze to the nearest goal; goals in no cell count for nothing."""
    ways = np.min(yardstick.distance(goals.astype(float), yardstick.targets), axis=0)
    return float(np.mean(np.where(np.isfinite(ways), ways, np.nanmax(np.where(np.isfinite(ways), ways, np.nan)))))


def verdicts(away: dict[str, list[float]]) -> list[Verdict]:
    """The claim of the paper about goals."""
    baseline = Scores("forward MI", away["forward_mi"])
    what = "walking distance from anywhere to the nearest goal"
    return [
        together(
            "The goals of forward MI are limited to where its policy goes; EDL's are across the whole maze.",
            [better("", what, Scores(LABELS[x], away[x]), baseline, lower=True) for x in ("siblings", "ours")],
        )
    ]


FIGURE = PaperFigure("Goal states of forward MI and of EDL", needed, make)

"""Figure 4, "Impact of the initial state": one corridor, two starts, and whether the skills are the same."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from edl.evaluate.distances import hausdorff, transport
from edl.paper import recipes
from edl.paper.figure import BASELINES, Made, PaperFigure, Picture, Runs, ends, first
from edl.paper.library import corner, numbers_of, play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, together
from edl.runs.result import Run

CENTER, LEFT = "corridor_center", "corridor_left"
PAIRS = {
    "Forward MI": ("forward_mi_center", "forward_mi_left"),
    "Reverse MI": ("reverse_mi_center", "reverse_mi_left"),
    "EDL, explored in E_center": ("center_center", "center_left"),
    "EDL, explored in E_left": ("left_center", "left_left"),
}
"""Learned with the start in the centre, and on the left."""
Points = Float[np.ndarray, "seeds k 2"]


def needed(grid: Grid) -> dict[str, Recipe]:
    """Baselines from both starts; EDL explored and discovered in each corridor, and learned in both.

    Here straight distance is walking distance, so nothing deceives and no siblings are wanted.
    """
    learner = recipes.straight(grid)
    chosen = {
        f"{method}_{env.removeprefix('corridor_')}": recipes.baseline(grid, env, method)
        for method in BASELINES
        for env in (CENTER, LEFT)
    }
    for env, other in ((CENTER, LEFT), (LEFT, CENTER)):
        here, there = (name.removeprefix("corridor_") for name in (env, other))
        source = recipes.edl(grid, env, "smm", learner)
        title = f"EDL (explored in {env}) in {other}"
        chosen[f"{here}_{here}"] = source
        chosen[f"{here}_{there}"] = grid.recipe(title, other, source, explore="smm", learner=learner)
    return chosen


def make(runs: Runs) -> Made:
    """Rollouts from both starts, and the distance between the two sets of skills."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play(run) for label, run in runs.items()}
    points = {label: places(runs[label], ends(episodes)) for label, episodes in played.items()}
    apart = {name: distances(points[a], points[b]) for name, (a, b) in PAIRS.items()}
    apart["EDL, between the two explorations"] = distances(points["center_center"], points["left_center"])

    def panel(label: str, title: str) -> Panel:
        run = runs[label]
        assert run.layout is not None
        goals = None if run.skills is None else np.asarray(run.skills.goals[0])
        return Panel(run.layout, title, paths=first(played[label]), goals=goals)

    rows = [
        [panel(center, f"{name}: start in the centre"), panel(left, f"{name}: start on the left")]
        for name, (center, left) in PAIRS.items()
    ]
    caption = "Each row: the same method from two starts. Top: baselines. Bottom: EDL, explored in one corridor, "
    picture = Picture(panels_figure(rows, side=5.2), caption + "learned in both.")
    return Made({"": picture}, verdicts(apart), {"runs": numbers_of(dict(runs)), "distance": apart})


def places(run: Run, last: Float[np.ndarray, "seeds k n 2"]) -> Points:
    """Where the skills end on average, counted from the left end of the corridor and not from the start."""
    assert run.layout is not None
    return np.mean(last, axis=2) - corner(run.layout)


def distances(x: Points, y: Points) -> dict[str, list[float]]:
    """Between two sets of skills, seed by seed."""
    return {
        "transport": [transport(a, b) for a, b in zip(x, y, strict=True)],
        "hausdorff": [hausdorff(a, b) for a, b in zip(x, y, strict=True)],
    }


def verdicts(apart: Mapping[str, Mapping[str, list[float]]]) -> list[Verdict]:
    """The claims of the paper about the initial state."""
    moved = {name: Scores(name, each["transport"]) for name, each in apart.items()}
    what = "optimal-transport distance between the skills from the two starts, in cells"
    baselines, ours = list(PAIRS)[:2], list(PAIRS)[2:]
    return [
        together(
            "Baselines discover very different skills depending on the initial state; EDL's are very similar.",
            [better("", what, moved[x], moved[y], lower=True) for x in ours for y in baselines],
        ),
        together(
            "EDL's skills are very similar whichever corridor was explored.",
            [
                better("", "distance between skills", moved["EDL, between the two explorations"], moved[y], lower=True)
                for y in baselines
            ],
        ),
    ]


FIGURE = PaperFigure("Impact of the initial state", needed, make)

"""Figure 4, "Impact of the initial state": one corridor, two starts. Do both give the same skills?"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from edl.evaluate.distances import hausdorff, transport
from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import BASELINES, FigureResult, PaperFigure, Picture, rollout_panel
from edl.paper.measurements import Runs, lower_left_cell, play_run, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, all_hold, better
from edl.runs.result import Run

CENTER, LEFT = "corridor_center", "corridor_left"
BASELINE_PAIRS = {
    "Forward MI": ("forward_mi_center", "forward_mi_left"),
    "Reverse MI": ("reverse_mi_center", "reverse_mi_left"),
}
EDL_PAIRS = {
    "EDL, explored in E_center": ("center_center", "center_left"),
    "EDL, explored in E_left": ("left_center", "left_left"),
}
PAIRS = BASELINE_PAIRS | EDL_PAIRS
"""The labels of two runs per method: trained from the start in the centre, and from the start on the left."""
BETWEEN_EXPLORATIONS = "EDL, between the two explorations"
Points = Float[np.ndarray, "seeds k 2"]


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Baselines from both starts. EDL explores and discovers in each corridor, and learns in both.

    In a corridor, Euclidean distance equals walking distance, so the learner needs no siblings.
    """
    learner = recipes.euclidean_without_siblings(settings)
    runs = {
        f"{method}_{env.removeprefix('corridor_')}": recipes.baseline(settings, env, method)
        for method in BASELINES
        for env in (CENTER, LEFT)
    }
    for env, other in ((CENTER, LEFT), (LEFT, CENTER)):
        here, there = (name.removeprefix("corridor_") for name in (env, other))
        source = recipes.edl(settings, env, "smm", learner)
        title = f"EDL (explored in {env}) in {other}"
        runs[f"{here}_{here}"] = source
        runs[f"{here}_{there}"] = settings.recipe(title, other, source, explore="smm", learner=learner)
    return runs


def build(runs: Runs) -> FigureResult:
    """Rollouts from both starts, and the distance between the two sets of skills."""
    from edl.figures.panels import panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    ends = {label: mean_ends(runs[label], last_states(episodes)) for label, episodes in played.items()}
    distances = {name: set_distances(ends[center], ends[left]) for name, (center, left) in PAIRS.items()}
    distances[BETWEEN_EXPLORATIONS] = set_distances(ends["center_center"], ends["left_center"])
    rows = [
        [
            rollout_panel(runs[center], played[center], f"{name}: start in the centre"),
            rollout_panel(runs[left], played[left], f"{name}: start on the left"),
        ]
        for name, (center, left) in PAIRS.items()
    ]
    caption = (
        "Each row shows one method from two starts. Top: baselines. Bottom: EDL, which explored in one corridor and "
        "learned in both."
    )
    picture = Picture(panels_figure(rows, side=5.2), caption)
    return FigureResult({"": picture}, verdicts(distances), {"runs": run_numbers(runs), "distance": distances})


def mean_ends(run: Run, last: Float[np.ndarray, "seeds k n 2"]) -> Points:
    """Mean end of each skill, relative to the left end of the corridor instead of the start."""
    assert run.layout is not None
    return np.mean(last, axis=2) - lower_left_cell(run.layout)


def set_distances(x: Points, y: Points) -> dict[str, list[float]]:
    """Distances between two sets of skills, per seed."""
    return {
        "transport": [transport(a, b) for a, b in zip(x, y, strict=True)],
        "hausdorff": [hausdorff(a, b) for a, b in zip(x, y, strict=True)],
    }


def verdicts(distances: Mapping[str, Mapping[str, list[float]]]) -> list[Verdict]:
    """The paper's claims about the initial state."""
    scores = {name: Scores(name, each["transport"]) for name, each in distances.items()}
    what = "optimal-transport distance between the skills from the two starts, in cells"
    return [
        all_hold(
            "Baselines discover very different skills depending on the initial state; EDL's are very similar.",
            [better("", what, scores[x], scores[y], lower=True) for x in EDL_PAIRS for y in BASELINE_PAIRS],
        ),
        all_hold(
            "EDL's skills are very similar whichever corridor was explored.",
            [
                better("", "distance between skills", scores[BETWEEN_EXPLORATIONS], scores[y], lower=True)
                for y in BASELINE_PAIRS
            ],
        ),
    ]


FIGURE = PaperFigure("Impact of the initial state", define_runs, build)

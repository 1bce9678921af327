"""Figure 3, "Impact of the initial state": one corridor, two starts. Do both give the same skills?

Skills also differ between two seeds of the same run. This distance is the control: a method is sensitive to the start
if its skills differ more between the two starts than between two seeds.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from edl.evaluate.distances import hausdorff, transport
from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import BASELINES, FigureResult, PaperFigure, Picture, rollout_panel
from edl.paper.measurements import Runs, lower_left_cell, play_run, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, greater, judge, less, not_greater
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
SLIGHT = 0.25
"""The largest additional distance that counts as very similar: a quarter of a cell."""
Points = Float[np.ndarray, "seeds k 2"]


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Baselines from both starts. EDL explores and discovers in each corridor, and learns in both.

    In a corridor, Euclidean distance equals walking distance, so the learner needs no siblings.
    """
    learner = recipes.without_siblings(settings, CENTER)
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
    for name, (center, left) in PAIRS.items():
        distances[between_seeds(name)] = seed_distances(ends[center], ends[left])
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


def seed_distances(*runs: Points) -> dict[str, list[float]]:
    """Mean distance between the skills of one seed and those of the next, over the runs; empty for a single seed."""
    if len(runs[0]) == 1:
        return {"transport": [], "hausdorff": []}
    each = [set_distances(run, np.roll(run, 1, axis=0)) for run in runs]
    return {name: np.mean([distances[name] for distances in each], axis=0).tolist() for name in each[0]}


def between_seeds(name: str) -> str:
    return f"{name}, between seeds"


def verdicts(distances: Mapping[str, Mapping[str, list[float]]]) -> list[Verdict]:
    """The paper's claims about the initial state."""
    scores = {name: Scores(name, each["transport"]) for name, each in distances.items()}
    what = "optimal-transport distance between two sets of skills"
    similar = [
        not_greater(what, scores[BETWEEN_EXPLORATIONS], scores[between_seeds(name)], slack=SLIGHT) for name in EDL_PAIRS
    ]
    return [
        judge(
            "Baselines are very sensitive to p(s_0) and discover very different skills depending on this distribution.",
            "The skills of a baseline differ more between the two starts than between two seeds from the same start.",
            [greater(what, scores[name], scores[between_seeds(name)]) for name in BASELINE_PAIRS],
        ),
        judge(
            "A change in p(s_0) should have little impact on what options are deemed important [as with EDL].",
            "EDL's skills from the two starts differ less than those of each baseline.",
            [less(what, scores[x], scores[y]) for x in EDL_PAIRS for y in BASELINE_PAIRS],
        ),
        judge(
            "Options discovered by EDL are very similar in both setups [exploration in E_center or in E_left].",
            f"They differ between the two explorations by at most {SLIGHT:g} cells more than between two seeds of one "
            "exploration, and by less than a baseline's skills from the two starts.",
            [*similar, *(less(what, scores[BETWEEN_EXPLORATIONS], scores[y]) for y in BASELINE_PAIRS)],
        ),
    ]


FIGURE = PaperFigure("Impact of the initial state", define_runs, build)

"""Figure 3, "Exploration with SMM": the square maze with and without an oracle."""

import numpy as np
from jaxtyping import Float

from edl.artifacts import States
from edl.envs.layouts import Layout
from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import (
    BASELINES,
    LABELS,
    FigureResult,
    PaperFigure,
    Picture,
    better_run,
    note,
    rollout_panel,
)
from edl.paper.measurements import Runs, play_run, right_share, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, all_hold, better, within

ENV = "square"
RIGHT = 2.5
"""x at which the right side begins: the corridor that is reached only by a detour."""
NEAR_WALL = 0.1
"""A sample is near a wall if it is at most this far from it."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, and EDL with an oracle and with SMM."""
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "oracle": recipes.edl(settings, ENV, "oracle"),
        "smm": recipes.edl(settings, ENV, "smm"),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts, and the share of rollouts that end on the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    layout = runs["oracle"].layout
    assert layout is not None
    right_shares = {label: right_share(last_states(episodes), RIGHT) for label, episodes in played.items()}
    wall_shares = {label: near_wall_share(layout, runs[label].states) for label in ("oracle", "smm")}

    def panel(label: str) -> Panel:
        return rollout_panel(runs[label], played[label], LABELS[label], note(runs[label], "best_skill_distance"))

    figure = panels_figure([[panel(label) for label in row] for row in (BASELINES, ("oracle", "smm"))])
    caption = "Top: baselines. Bottom: EDL with an oracle, and with State Marginal Matching instead of the oracle."
    numbers = {"runs": run_numbers(runs), "ends_on_the_right": right_shares, "samples_near_walls": wall_shares}
    return FigureResult({"": Picture(figure, caption)}, verdicts(runs, right_shares, wall_shares), numbers)


def near_wall_share(layout: Layout, states: States | None) -> list[float]:
    """Share of each seed's samples of p(s) that are near a wall."""
    assert states is not None
    samples = np.asarray(states.samples, float)
    return [float(np.mean(distance_to_walls(layout, each) < NEAR_WALL)) for each in samples]


def distance_to_walls(layout: Layout, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Distance of each point to the nearest wall."""
    start, direction = layout.walls[:, 0], layout.walls[:, 1] - layout.walls[:, 0]
    along = np.einsum("nwd,wd->nw", points[:, None] - start, direction) / np.sum(direction**2, axis=1)
    nearest = start + np.clip(along, 0, 1)[..., None] * direction
    return np.min(np.linalg.norm(points[:, None] - nearest, axis=-1), axis=1)


def verdicts(runs: Runs, right_shares: dict[str, list[float]], wall_shares: dict[str, list[float]]) -> list[Verdict]:
    """The paper's claims about exploration with SMM."""
    right = {label: Scores(LABELS[label], values) for label, values in right_shares.items()}
    what = "share of rollouts that end on the right side"
    return [
        all_hold(
            "Baselines fail to discover skills that reach the right side of the maze.",
            [within("", what, right[label], high=0.05) for label in BASELINES],
        ),
        all_hold(
            "EDL with an oracle learns state-covering skills in this maze.",
            [better_run("", runs, "best_skill_distance", "oracle", label) for label in BASELINES],
        ),
        all_hold(
            "EDL learns state-covering skills even if no oracle is available (SMM).",
            [better_run("", runs, "best_skill_distance", "smm", label) for label in BASELINES]
            + [better("", what, right["smm"], right[label]) for label in BASELINES],
        ),
        better(
            "SMM collects more samples near the walls than the oracle does.",
            f"share of samples within {NEAR_WALL} of a wall",
            *(Scores(LABELS[label], wall_shares[label]) for label in ("smm", "oracle")),
        ),
    ]


FIGURE = PaperFigure("Exploration with SMM instead of an oracle", define_runs, build)

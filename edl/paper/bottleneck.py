"""Figure 1 and "Impact of bottleneck states": a large maze in which exploration and the Euclidean reward both fail."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from edl.envs.rollout import Episode
from edl.paper import recipes
from edl.paper.figure import (
    BASELINES,
    LABELS,
    FigureResult,
    PaperFigure,
    Picture,
    better_run,
    metric_phrase,
    note,
    rollout_panel,
    scores,
)
from edl.paper.measurements import Runs, metric_per_seed, play_run, run_numbers, visited_cells
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, at_least, at_most, judge, known, not_less

ENV = "bottleneck"
PANELS = ((*BASELINES, "untrained"), ("siblings", "ours", "no_siblings"))
ABLATION = (*BASELINES, "untrained", "smm", "no_siblings", "siblings", "walking", "ours")
COMPARED = ("best_skill_distance", "skill_coverage", "goal_success")
MANY_ROLLOUTS = 100
"""Rollouts per skill for the comparison with the untrained policy, the same number for all methods."""
NEW_CELLS = 0.05
"""The smallest share of the cells that counts as an expansion of the visited set: five of the hundred cells."""
ROOM = 4.5
"""The room of the start ends at x = 4.5 and y = 4.5."""
ORACLE_SLACK = 0.05
"""The largest loss of goal_success that counts as no loss."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, the untrained policy, EDL with and without an oracle and siblings, and ours."""
    siblings = recipes.sibling_rivalry(settings, ENV)
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "untrained": recipes.untrained(settings, ENV),
        "siblings": recipes.edl(settings, ENV, "oracle", siblings),
        "no_siblings": recipes.edl(settings, ENV, "oracle", recipes.without_siblings(settings, ENV)),
        "smm": recipes.edl(settings, ENV, "smm", siblings),
        "ours": recipes.ours(settings, ENV, "frontier"),
        "walking": recipes.ours(settings, ENV, "oracle"),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts of all methods, the ablation with intervals, and the picture for the front page."""
    many = {label: play_run(runs[label], MANY_ROLLOUTS) for label in (*BASELINES, "untrained")}
    played = {label: play_run(runs[label]) for row in PANELS for label in row if label != "untrained"}
    played["untrained"] = many["untrained"]
    layout = runs["ours"].layout
    assert layout is not None
    cells = {label: visited_cells(layout, episodes) for label, episodes in many.items()}
    numbers = {
        "new_cells": {label: np.mean(cells[label] & ~cells["untrained"], axis=1).tolist() for label in BASELINES},
        "coverage_100_rollouts": {label: each.mean(axis=1).tolist() for label, each in cells.items()},
        "in_first_room": {label: room_share(np.asarray(many[label].features)) for label in many},
    }
    return FigureResult(draw(runs, played), verdicts(runs, numbers), {"runs": run_numbers(runs), **numbers})


def room_share(paths: Float[np.ndarray, "seeds k n t 2"]) -> list[float]:
    """Share of the rollouts of each seed that never leave the room of the start."""
    return np.mean(np.all(paths < ROOM, axis=(3, 4)), axis=(1, 2)).tolist()


def draw(runs: Runs, played: Mapping[str, Episode]) -> dict[str, Picture]:
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import ONE_COLOUR, Panel, panels_figure

    def panel(label: str) -> Panel:
        run = runs[label]
        colours = [ONE_COLOUR] * run.config.num_skills if label == "untrained" else None
        metrics = ("best_skill_distance",) if run.skills is None else ("best_skill_distance", "goal_success")
        return rollout_panel(run, played[label], LABELS[label], note(run, *metrics), colours)

    compared = {
        metric: {LABELS[label]: known(metric_per_seed(runs[label], metric)) for label in ABLATION}
        for metric in COMPARED
    }
    return {
        "": Picture(
            panels_figure([[panel(label) for label in row] for row in PANELS]),
            "Skills of every method in the bottleneck maze: 20 rollouts per skill, one colour per skill. The black dot "
            "is the start; stars are goals. The untrained policy has 100 rollouts per skill, as in the paper; its "
            "numbers are compared with 100 rollouts of the baselines.",
        ),
        "ablation": Picture(
            intervals_figure(compared),
            "All methods in the bottleneck maze. Small dots are seeds; below them, the mean and its 95 % interval.",
        ),
        "headline": Picture(
            panels_figure([[panel(label) for label in (*BASELINES, "ours")]]),
            "Two baselines, and EDL without an oracle.",
        ),
    }


def verdicts(runs: Runs, numbers: Mapping[str, Mapping[str, list[float]]]) -> list[Verdict]:
    """The paper's claims about this maze, and ours."""

    def measured(name: str, label: str) -> Scores:
        return Scores(LABELS[label], numbers[name][label])

    success = metric_phrase("goal_success")
    return [
        judge(
            "Existing algorithms do not expand the set of states visited by this random policy.",
            "The cells that a baseline visits and its untrained policy does not, with 100 rollouts per skill of both, "
            f"are at most {NEW_CELLS:.0%} of the maze.",
            [at_most("share of new cells", measured("new_cells", x), NEW_CELLS) for x in BASELINES],
        ),
        judge(
            "Existing methods fail at exploring the maze and most options just visit different regions of the initial "
            "room.",
            "More than half of the rollouts of each baseline never leave the room of the start.",
            [at_least("share of rollouts in the first room", measured("in_first_room", x), 0.5) for x in BASELINES],
        ),
        judge(
            "EDL discovers skills that provide a better coverage of the state space.",
            "EDL with an oracle and siblings visits more cells, and its best skill ends nearer to a random point, than "
            "each baseline.",
            [
                better_run(runs, metric, "siblings", label)
                for label in BASELINES
                for metric in ("skill_coverage", "best_skill_distance")
            ],
        ),
        judge(
            "Sibling Rivalry proved crucial to avoid these failures [policies that get stuck in local optima].",
            "With siblings, more rollouts end at their goal than without, for the same number of environment steps.",
            [better_run(runs, "goal_success", "siblings", "no_siblings")],
        ),
        judge(
            "We were unable to explore this type of maze effectively with SMM.",
            "With the states of SMM instead of the oracle's, the best skill ends farther from a random point.",
            [better_run(runs, "best_skill_distance", "siblings", "smm")],
        ),
        judge(
            "Walking distance without siblings reaches more goals than Euclidean distance with siblings.",
            "More rollouts end at their goal, by walking distance.",
            [better_run(runs, "goal_success", "walking", "siblings")],
            source="ours",
        ),
        judge(
            "EDL needs no oracle: it explores the maze by itself and is better than both baselines.",
            f"Without an oracle, at most {ORACLE_SLACK:.0%} fewer rollouts end at their goal than with one, and the "
            "best skill ends nearer to a random point than that of each baseline.",
            [
                not_less(success, *(scores(runs, x, "goal_success") for x in ("ours", "walking")), slack=ORACLE_SLACK),
                *(better_run(runs, "best_skill_distance", "ours", label) for label in BASELINES),
            ],
            source="ours",
        ),
    ]


FIGURE = PaperFigure("Bottleneck states: baselines, the untrained policy, and EDL", define_runs, build)

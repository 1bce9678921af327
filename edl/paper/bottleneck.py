"""Figure 1 and "Impact of bottleneck states": ten rooms' worth of maze, where exploration and rewards both mislead."""

import numpy as np

from edl.evaluate import maze_yardstick, summarise_seeds
from edl.paper import recipes
from edl.paper.figure import BASELINES, LABELS, Made, PaperFigure, Picture, Runs, first, note, scores
from edl.paper.library import numbers_of, per_seed, play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, no_better, together, within

ENV = "bottleneck"
ABLATION = ("straight", "siblings", "on_foot", "ours")
UNTRAINED_ROLLOUTS = 100
ZERO_SHOT = "zero-shot distance"


def needed(grid: Grid) -> dict[str, Recipe]:
    """Both baselines, the untrained policy, and EDL with each of its rewards."""
    return {
        **{method: recipes.baseline(grid, ENV, method) for method in BASELINES},
        "untrained": recipes.untrained(grid, ENV),
        "siblings": recipes.edl(grid, ENV, "oracle", recipes.with_siblings(grid)),
        "ours": recipes.edl(grid, ENV, "frontier", recipes.on_foot(grid)),
        "straight": recipes.edl(grid, ENV, "oracle", recipes.straight(grid)),
        "on_foot": recipes.edl(grid, ENV, "oracle", recipes.on_foot(grid)),
    }


def make(runs: Runs) -> Made:
    """Rollouts of all methods, the ablation with intervals, and the picture for the front page."""
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import ONE_COLOUR, Panel, panels_figure

    shown = {label: play(runs[label]) for label in (*BASELINES, "siblings", "ours", "straight")}
    shown["untrained"] = play(runs["untrained"], UNTRAINED_ROLLOUTS)
    layout = runs["ours"].layout
    assert layout is not None
    # A policy that is not trained visits more cells in 100 rollouts than in the 20 of the metrics.
    wide = [seed["skill_coverage"] or 0.0 for seed in summarise_seeds(maze_yardstick(layout), shown["untrained"])]

    def panel(label: str) -> Panel:
        run, goals = runs[label], None
        if run.skills is not None:
            goals = np.asarray(run.skills.goals[0])
        colours = [ONE_COLOUR] * run.config.num_skills if label == "untrained" else None
        measures = ("zero_shot_distance",) if goals is None else ("zero_shot_distance", "goal_success")
        return Panel(layout, LABELS[label], note(run, *measures), first(shown[label]), goals, colours)

    rows = [[*BASELINES, "untrained"], ["siblings", "ours", "straight"]]
    metrics = {"zero_shot_distance": "lower", "skill_coverage": "higher", "goal_success": "higher"}
    compared = {
        metric: {
            LABELS[label]: None if None in (values := per_seed(runs[label], metric)) else values
            for label in (*BASELINES, "untrained", *ABLATION)
        }
        for metric in metrics
    }
    return Made(
        {
            "": Picture(
                panels_figure([[panel(label) for label in row] for row in rows]),
                "Skills of every method in the bottleneck maze: 20 rollouts each, a colour per skill, from the black "
                "dot; stars are goals. The untrained policy has 100 rollouts per skill.",
            ),
            "ablation": Picture(
                intervals_figure(compared, metrics), "Mean, 95 % interval and seeds of all methods in this maze."
            ),
            "headline": Picture(
                panels_figure([[panel(label) for label in (*BASELINES, "ours")]]),
                "Two baselines, and EDL without an oracle.",
            ),
        },
        verdicts(runs, wide),
        {"runs": numbers_of(dict(runs)), "untrained_coverage_100_rollouts": wide},
    )


def verdicts(runs: Runs, untrained_coverage: list[float]) -> list[Verdict]:
    """The claims of the paper about this maze, and ours."""
    wide = Scores("the untrained policy", untrained_coverage)
    siblings, ours = (scores(runs, label, "zero_shot_distance") for label in ("siblings", "ours"))
    return [
        together(
            "Baselines do not expand the set of states that an untrained policy visits.",
            [
                no_better("", "share of cells visited", scores(runs, label, "skill_coverage"), wide, slack=0.05)
                for label in BASELINES
            ],
        ),
        together(
            "EDL, with an oracle and Sibling Rivalry, learns skills all over a maze of which baselines cover a part.",
            [better("", ZERO_SHOT, siblings, scores(runs, x, "zero_shot_distance"), lower=True) for x in BASELINES],
        ),
        better(
            "Sibling Rivalry is crucial to avoid the local optima of the Euclidean reward.",
            "share of rollouts that reach their goal",
            *(scores(runs, label, "goal_success") for label in ("siblings", "straight")),
        ),
        better(
            "Ours: walking distance does without siblings what Euclidean distance does not do with them.",
            "share of rollouts that reach their goal",
            *(scores(runs, label, "goal_success") for label in ("on_foot", "siblings")),
        ),
        together(
            "Ours: no oracle is needed either. EDL explores the maze by itself, and beats both baselines.",
            [
                within("", "share of rollouts that reach their goal", scores(runs, "ours", "goal_success"), low=0.9),
                *(better("", ZERO_SHOT, ours, scores(runs, x, "zero_shot_distance"), lower=True) for x in BASELINES),
            ],
        ),
    ]


FIGURE = PaperFigure("Bottleneck states: baselines, the untrained policy, and EDL", needed, make)

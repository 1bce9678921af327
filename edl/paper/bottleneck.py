"""Figure 1 and "Impact of bottleneck states": a large maze in which exploration and the Euclidean reward both fail."""

from collections.abc import Mapping

from edl.envs.rollout import Episode
from edl.evaluate import maze_evaluator, summarise_seeds
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
from edl.paper.measurements import Runs, metric_per_seed, play_run, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, all_hold, no_better, within

ENV = "bottleneck"
ABLATION = ("no_siblings", "siblings", "walking", "ours")
PANELS = ((*BASELINES, "untrained"), ("siblings", "ours", "no_siblings"))
COMPARED = ("best_skill_distance", "skill_coverage", "goal_success")
UNTRAINED_ROLLOUTS = 100
COVERAGE_SLACK = 0.05
"""Smallest gain in coverage that counts as more coverage than the untrained policy's."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, the untrained policy, and EDL with each of its rewards."""
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "untrained": recipes.untrained(settings, ENV),
        "siblings": recipes.edl(settings, ENV, "oracle", recipes.sibling_rivalry(settings)),
        "ours": recipes.edl(settings, ENV, "frontier", recipes.walking(settings)),
        "no_siblings": recipes.edl(settings, ENV, "oracle", recipes.euclidean_without_siblings(settings)),
        "walking": recipes.edl(settings, ENV, "oracle", recipes.walking(settings)),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts of all methods, the ablation with intervals, and the picture for the front page."""
    played = {label: play_run(runs[label]) for row in PANELS for label in row if label != "untrained"}
    played["untrained"] = play_run(runs["untrained"], UNTRAINED_ROLLOUTS)
    layout = runs["ours"].layout
    assert layout is not None
    # The untrained policy visits more cells in 100 rollouts than in the 20 rollouts of the metrics.
    per_seed = summarise_seeds(maze_evaluator(layout), played["untrained"])
    untrained_coverage = [seed["skill_coverage"] or 0.0 for seed in per_seed]
    return FigureResult(
        draw(runs, played),
        verdicts(runs, untrained_coverage),
        {"runs": run_numbers(runs), "untrained_coverage_100_rollouts": untrained_coverage},
    )


def draw(runs: Runs, played: Mapping[str, Episode]) -> dict[str, Picture]:
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import ONE_COLOUR, Panel, panels_figure

    def panel(label: str) -> Panel:
        run = runs[label]
        colours = [ONE_COLOUR] * run.config.num_skills if label == "untrained" else None
        metrics = ("best_skill_distance",) if run.skills is None else ("best_skill_distance", "goal_success")
        return rollout_panel(run, played[label], LABELS[label], note(run, *metrics), colours)

    compared = {
        metric: {
            LABELS[label]: None if None in (values := metric_per_seed(runs[label], metric)) else values
            for label in (*BASELINES, "untrained", *ABLATION)
        }
        for metric in COMPARED
    }
    return {
        "": Picture(
            panels_figure([[panel(label) for label in row] for row in PANELS]),
            "Skills of every method in the bottleneck maze: 20 rollouts per skill, one colour per skill. The black dot "
            "is the start; stars are goals. The untrained policy has 100 rollouts per skill.",
        ),
        "ablation": Picture(
            intervals_figure(compared), "Mean, 95 % interval and seeds of all methods in the bottleneck maze."
        ),
        "headline": Picture(
            panels_figure([[panel(label) for label in (*BASELINES, "ours")]]),
            "Two baselines, and EDL without an oracle.",
        ),
    }


def verdicts(runs: Runs, untrained_coverage: list[float]) -> list[Verdict]:
    """The paper's claims about this maze, and ours."""
    untrained = Scores("the untrained policy", untrained_coverage)
    coverage, success = metric_phrase("skill_coverage"), metric_phrase("goal_success")
    return [
        all_hold(
            "Baselines do not expand the set of states that an untrained policy visits.",
            [
                no_better("", coverage, scores(runs, label, "skill_coverage"), untrained, slack=COVERAGE_SLACK)
                for label in BASELINES
            ],
        ),
        all_hold(
            "EDL with an oracle and Sibling Rivalry learns skills all over the maze; the baselines cover a part of it.",
            [better_run("", runs, "best_skill_distance", "siblings", label) for label in BASELINES],
        ),
        better_run(
            "Sibling Rivalry is crucial to avoid the local optima of the Euclidean reward.",
            runs,
            "goal_success",
            "siblings",
            "no_siblings",
        ),
        better_run(
            "Ours: walking distance without siblings reaches more goals than Euclidean distance with siblings.",
            runs,
            "goal_success",
            "walking",
            "siblings",
        ),
        all_hold(
            "Ours: EDL needs no oracle. It explores the maze by itself and is better than both baselines.",
            [
                within("", success, scores(runs, "ours", "goal_success"), low=0.9),
                *(better_run("", runs, "best_skill_distance", "ours", label) for label in BASELINES),
            ],
        ),
    ]


FIGURE = PaperFigure("Bottleneck states: baselines, the untrained policy, and EDL", define_runs, build)

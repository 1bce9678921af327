"""Figure 5, "Encouraging specific behaviors": a prior for skills on the right side of the tree maze."""

from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import BASELINES, LABELS, FigureResult, PaperFigure, Picture, better_run, rollout_panel
from edl.paper.measurements import Runs, play_run, right_share, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, all_hold, within

ENV = "tree"
RIGHT = 0.0
"""x at which the right side begins."""
PRIOR = f"x > {RIGHT:g}"


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, which cannot use a prior, and EDL with and without the prior."""
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "no_prior": recipes.edl(settings, ENV, "oracle"),
        "prior": recipes.edl(settings, ENV, "oracle", region=PRIOR),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts, and the share of rollouts that end on the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    shares = {label: right_share(last_states(episodes), RIGHT) for label, episodes in played.items()}

    def panel(label: str) -> Panel:
        note = f"{shares[label][0]:.0%} of the rollouts end on the right"
        return rollout_panel(runs[label], played[label], LABELS[label], note)

    figure = panels_figure([[panel(label) for label in row] for row in (BASELINES, ("no_prior", "prior"))], side=4.4)
    caption = "Top: baselines, which cannot use a prior. Bottom: EDL without and with the prior x > 0."
    numbers = {"runs": run_numbers(runs), "ends_on_the_right": shares}
    return FigureResult({"": Picture(figure, caption)}, verdicts(runs, shares), numbers)


def verdicts(runs: Runs, shares: dict[str, list[float]]) -> list[Verdict]:
    """The paper's claims about priors."""
    share = {label: Scores(LABELS[label], values) for label, values in shares.items()}
    what = "share of rollouts that end on the right side"
    return [
        within("With the prior, EDL devotes all its skills to the right side.", what, share["prior"], low=0.95),
        all_hold(
            "Without it, EDL learns skills on both sides, across the whole maze.",
            [
                within("", what, share["no_prior"], low=0.3, high=0.7),
                *(better_run("", runs, "best_skill_distance", "no_prior", label) for label in BASELINES),
            ],
        ),
        all_hold(
            "Baselines are agnostic to the prior, because they cannot use it.",
            [within("", what, share[label], high=0.95) for label in BASELINES],
        ),
    ]


FIGURE = PaperFigure("A prior over behaviours", define_runs, build)

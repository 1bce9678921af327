"""Figure 4, "Encouraging specific behaviors": a prior for skills on the right side of the tree maze.

The maze is symmetric about x = 0, so a method that does not know the prior has no reason to prefer a side.
"""

from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import BASELINES, LABELS, FigureResult, PaperFigure, Picture, better_run, rollout_panel
from edl.paper.measurements import Runs, play_run, right_share, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, at_least, between, greater, judge

ENV = "tree"
RIGHT = 0.0
"""x at which the right side begins."""
PRIOR = f"x > {RIGHT:g}"
ALL = 0.95
"""The share of the rollouts that counts as all of them."""
NO_SIDE = (0.3, 0.7)
"""A share of rollouts on the right that prefers neither side."""
PANELS = (BASELINES, ("no_prior", "prior"), ("no_prior_walking", "prior_walking"))


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, and EDL with and without the prior: with the paper's learner, and with ours."""
    siblings = recipes.sibling_rivalry(settings, ENV)
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "no_prior": recipes.edl(settings, ENV, "oracle", siblings),
        "prior": recipes.edl(settings, ENV, "oracle", siblings, region=PRIOR),
        "no_prior_walking": recipes.ours(settings, ENV, "oracle"),
        "prior_walking": recipes.ours(settings, ENV, "oracle", region=PRIOR),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts, and the share of rollouts that end on the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    shares = {label: right_share(last_states(episodes), RIGHT) for label, episodes in played.items()}

    def panel(label: str) -> Panel:
        note = f"{shares[label][0]:.0%} of the rollouts end on the right"
        return rollout_panel(runs[label], played[label], LABELS[label], note)

    figure = panels_figure([[panel(label) for label in row] for row in PANELS], side=4.4)
    caption = (
        f"Top: baselines, which cannot use a prior. Middle: EDL as in the paper, without and with the prior {PRIOR}. "
        "Bottom: the same with our walking distance instead of siblings."
    )
    numbers = {"runs": run_numbers(runs), "ends_on_the_right": shares}
    return FigureResult({"": Picture(figure, caption)}, verdicts(runs, shares), numbers)


def verdicts(runs: Runs, shares: dict[str, list[float]]) -> list[Verdict]:
    """The paper's claims about priors."""
    share = {label: Scores(LABELS[label], values) for label, values in shares.items()}
    what = "share of rollouts that end on the right side"
    devotes_all = f"At least {ALL:.0%} of the rollouts end on the right side."
    return [
        judge(
            "When incorporating the prior, the agent devotes all its capacity to learning skills within the region of "
            "interest.",
            devotes_all,
            [at_least(what, share["prior"], ALL)],
        ),
        judge(
            "In the absence of a prior, EDL learns options across the whole state space.",
            f"Between {NO_SIDE[0]:.0%} and {NO_SIDE[1]:.0%} of the rollouts end on the right side, and the best skill "
            "ends nearer to a random point of the whole maze than that of each baseline.",
            [
                between(what, share["no_prior"], *NO_SIDE),
                *(better_run(runs, "best_skill_distance", "no_prior", label) for label in BASELINES),
            ],
        ),
        judge(
            "This type of prior cannot be incorporated into baseline methods, whose discovered options are agnostic "
            "to it.",
            "The baselines prefer neither side of the symmetric maze (between "
            f"{NO_SIDE[0]:.0%} and {NO_SIDE[1]:.0%}), and fewer of their rollouts than of EDL's with the prior end on "
            "the right.",
            [
                *(between(what, share[label], *NO_SIDE) for label in BASELINES),
                *(greater(what, share["prior"], share[label]) for label in BASELINES),
            ],
        ),
        judge(
            "With walking distance, EDL devotes all its skills to the region, too.",
            devotes_all,
            [at_least(what, share["prior_walking"], ALL)],
            source="ours",
        ),
    ]


FIGURE = PaperFigure("A prior over behaviours", define_runs, build)

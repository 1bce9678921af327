"""The appendix's "Choice of mutual information's form": EDL with r = q(z|s) against r = log q(s|z).

"It is sparse, i.e. many states provide no reward at all, which might hinder training". Each form rewards
something else (ending in the skill's region, ending at its goal), so we score both by what neither rewards: how near
to a random point the best skill ends, and how near the skill that q(z|s) picks for that point. Both forms share q(z|s).
The forward form has siblings, as in the paper; the forward form without them is next to it. All get the same number of
environment steps. The second claim, about predictability, is in `edl.paper.entropy`.
"""

from edl.paper import recipes
from edl.paper.figure import FigureResult, PaperFigure, Picture, metric_phrase, note, rollout_panel
from edl.paper.measurements import Runs, ends_in_region, metric_per_seed, play_run, reaches_goal, run_numbers, shares
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, judge, known, less

ENVS = ("bottleneck", "square")
NAMES = {
    "reverse": "Reverse: q(z|s)",
    "plain": "Forward: log q(s|z), no siblings",
    "forward": "Forward with siblings",
    "walking": "EDL (ours)",
}
NEUTRAL = ("best_skill_distance", "zero_shot_distance")
"""Metrics that neither form rewards."""
PerRun = dict[str, list[float | None]]
"""Numbers per seed by run."""


def run_label(form: str, env: str) -> str:
    return f"{form}_{env}"


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """The same oracle, discovery and number of steps with each of the rewards; and ours, for reference."""
    runs = {}
    for env in ENVS:
        learners = {
            "reverse": recipes.with_reward(settings, env, "posterior"),
            "plain": recipes.with_reward(settings, env, "log_likelihood"),
            "forward": recipes.sibling_rivalry(settings, env),
        }
        for form, learner in learners.items():
            runs[run_label(form, env)] = recipes.edl(settings, env, "oracle", learner)
        runs[run_label("walking", env)] = recipes.ours(settings, env, "oracle")
    return runs


def build(runs: Runs) -> FigureResult:
    """A table of the results of each form, and rollouts."""
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    scores = {metric: {label: metric_per_seed(run, metric) for label, run in runs.items()} for metric in NEUTRAL}
    rewarded = {
        "ends_in_own_region": {label: shares(ends_in_region(run, played[label])) for label, run in runs.items()},
        "reaches_goal": {label: shares(reaches_goal(run, played[label])) for label, run in runs.items()},
    }
    table = {
        f"{metric_phrase(metric)}, {env}": {NAMES[form]: known(each[run_label(form, env)]) for form in NAMES}
        for env in ENVS
        for metric, each in scores.items()
    }
    rows = [
        [
            rollout_panel(runs[label], played[label], NAMES[form], note(runs[label], NEUTRAL[0]))
            for form in NAMES
            for label in [run_label(form, env)]
        ]
        for env in ENVS
    ]
    pictures = {
        "": Picture(
            intervals_figure(table, dict.fromkeys(table, "lower")),
            "Each form of the reward, by two metrics that neither rewards. Small dots are seeds; below them, the mean "
            "and its 95 % interval.",
        ),
        "rollouts": Picture(panels_figure(rows), "Rollouts with each form of the reward."),
    }
    numbers = {"runs": run_numbers(runs), "share_of_skills": rewarded}
    return FigureResult(pictures, verdicts(scores), numbers)


def verdicts(scores: dict[str, PerRun]) -> list[Verdict]:
    """The appendix's prediction about the sparse reward, in each maze."""

    def forward_is_nearer(env: str, form: str) -> Verdict:
        siblings = "with siblings" if form == "forward" else "without siblings"
        sides = [(form, run_label(form, env)), ("reverse", run_label("reverse", env))]
        return judge(
            "It [the reward of the reverse form] is sparse, which might hinder training unless proper exploration "
            f"strategies are used. [{env}, forward form {siblings}]",
            "With the forward form, both the best skill and the skill that q(z|s) picks end nearer to a random point "
            "than with the reverse form.",
            [
                less(f"{metric_phrase(metric)} in {env}", *(Scores(NAMES[x], each[label]) for x, label in sides))
                for metric, each in scores.items()
            ],
        )

    return [forward_is_nearer(env, form) for env in ENVS for form in ("forward", "plain")]


FIGURE = PaperFigure("The form of the mutual information", define_runs, build)

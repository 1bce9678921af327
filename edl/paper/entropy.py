"""The appendix on predictability: do rewards for a region give more entropic skills than rewards for a goal?

The paper says so of the baseline reverse MI (caption of its reward landscape), and expects it of EDL with the reverse
form q(z|s) ("Choice of mutual information's form"), in both cases together with an entropy bonus. We test both at our
weight of the bonus and at the authors' (0.025 in every config that they released), in the bottleneck maze, which the
paper shows, and in the square maze.

The measure is the spread of trajectories: how far a state is from the mean state of its skill at the same step, over
all states of 20 rollouts per skill. Skills of EDL count if they succeed by their own reward: most rollouts end at the
goal (forward form) or in the skill's region (reverse form). All skills of reverse MI count.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from edl.envs.rollout import Episode
from edl.paper import recipes
from edl.paper.figure import FigureResult, PaperFigure, Picture, rollout_panel
from edl.paper.measurements import (
    PerSkill,
    Runs,
    ends_in_region,
    path_spread,
    play_run,
    reaches_goal,
    run_numbers,
    shares,
)
from edl.paper.recipes import AUTHORS_ENTROPY, OUR_ENTROPY, Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, greater, judge, known
from edl.program import NEVER_STOP
from edl.runs.result import Run

ENVS = ("bottleneck", "square")
WEIGHTS = (OUR_ENTROPY, AUTHORS_ENTROPY)
NAMES = {"reverse_mi": "Reverse MI", "reverse": "EDL, q(z|s)", "forward": "EDL, log q(s|z)"}
PAID_FOR_REGIONS = ("reverse_mi", "reverse")


class Spread(NamedTuple):
    """The spread of trajectories of each seed, and the share of the skills that count; None without any."""

    spread: list[float | None]
    counted: list[float]


def run_label(method: str, env: str, weight: float) -> str:
    return f"{method}_{env}_{weight:g}"


CASES = {run_label(*case): case for case in itertools.product(NAMES, ENVS, WEIGHTS)}
"""Method, env and entropy weight of each run."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Reverse MI, and EDL with both forms of the reward, in two mazes and with two entropy weights."""

    def define(method: str, env: str, weight: float) -> Recipe:
        if method == "reverse_mi":
            return recipes.baseline(settings, env, method, weight)
        forward, reverse = recipes.sibling_rivalry(settings, env), recipes.with_reward(settings, env, "posterior")
        # Policies that stop early spread more, because their learning rate is still high.
        learner = recipes.with_ppo(forward if method == "forward" else reverse, entropy_weight=weight)
        return recipes.edl(settings, env, "oracle", dataclasses.replace(learner, stop_at=NEVER_STOP))

    return {label: define(*case) for label, case in CASES.items()}


def build(runs: Runs) -> FigureResult:
    """The spread of each run with intervals, and rollouts."""
    from edl.figures.intervals import intervals_figure

    played = {label: play_run(run) for label, run in runs.items()}
    spreads = {label: spread_of(CASES[label][0], runs[label], episodes) for label, episodes in played.items()}
    table = {
        f"spread in {env}": {
            row_name(method, weight): known(spreads[run_label(method, env, weight)].spread)
            for method in NAMES
            for weight in WEIGHTS
        }
        for env in ENVS
    }
    pictures = {
        "": Picture(
            intervals_figure(table, dict.fromkeys(table, "lower"), missing="no skill succeeds"),
            "How far states are from the mean state of their skill at the same step. Small dots are seeds; below them, "
            "the mean and its 95 % interval.",
        ),
        **{env: draw_rollouts(runs, played, spreads, env) for env in ENVS},
    }
    numbers = {"runs": run_numbers(runs), "spread": {label: each._asdict() for label, each in spreads.items()}}
    return FigureResult(pictures, verdicts(spreads), numbers)


def draw_rollouts(runs: Runs, played: Mapping[str, Episode], spreads: Mapping[str, Spread], env: str) -> Picture:
    """One column per method, one row per entropy weight."""
    from edl.figures.panels import Panel, panels_figure

    def panel(method: str, weight: float) -> Panel:
        label = run_label(method, env, weight)
        return rollout_panel(runs[label], played[label], row_name(method, weight), spread_note(spreads[label]))

    rows = [[panel(method, weight) for method in NAMES] for weight in WEIGHTS]
    return Picture(panels_figure(rows), f"Rollouts in the {env} maze with each entropy weight.")


def spread_of(method: str, run: Run, episodes: Episode) -> Spread:
    """The spread of the skills that succeed by their own reward."""
    counted = successful_skills(method, run, episodes)
    return Spread(path_spread(np.asarray(episodes.features, float)[..., 1:, :], counted), shares(counted))


def successful_skills(method: str, run: Run, episodes: Episode) -> PerSkill:
    if method == "forward":
        return reaches_goal(run, episodes)
    if method == "reverse":
        return ends_in_region(run, episodes)
    return np.ones(episodes.valid.shape[:2], bool)


def row_name(method: str, weight: float) -> str:
    return f"{NAMES[method]}, entropy {weight:g}"


def spread_note(measured: Spread) -> str:
    """The line below a panel's title: the spread of the first seed."""
    value, counted = measured.spread[0], measured.counted[0]
    return "no skill succeeds" if value is None else f"spread {value:.2f}, {counted:.0%} of the skills count"


def verdicts(spreads: Mapping[str, Spread]) -> list[Verdict]:
    """Two claims of the paper, each in two mazes and with two entropy weights."""
    claims = {
        "reverse_mi": "When combined with an entropy bonus, this reward landscape [of reverse MI] results in skills "
        "that produce highly entropic trajectories within each region.",
        "reverse": "The fact that many states produce a maximum reward of 1 [in the reverse form] might lead to "
        "unpredictable skills when paired with an entropy bonus.",
    }
    return [
        spread_verdict(f"{claims[method]} [{env}, entropy weight {weight:g}]", spreads, method, env, weight)
        for method in PAID_FOR_REGIONS
        for env in ENVS
        for weight in WEIGHTS
    ]


def spread_verdict(claim: str, spreads: Mapping[str, Spread], method: str, env: str, weight: float) -> Verdict:
    """The trajectories spread more than EDL's; at the authors' weight, also more than at ours."""
    what = f"spread of trajectories in {env}"

    def scores(method: str, weight: float) -> Scores:
        spread, counted = spreads[run_label(method, env, weight)]
        return Scores(f"{row_name(method, weight)} ({np.mean(counted):.0%} of the skills)", spread)

    parts = [greater(what, scores(method, weight), scores("forward", weight))]
    test = "The trajectories of its skills spread more than those of EDL with log q(s|z) at the same entropy weight"
    if weight == AUTHORS_ENTROPY:
        parts.append(greater(what, scores(method, weight), scores(method, OUR_ENTROPY)))
        test += f", and more than at {OUR_ENTROPY:g}"
    return judge(claim, f"{test}.", parts)


FIGURE = PaperFigure("The entropy bonus and the predictability of skills", define_runs, build)

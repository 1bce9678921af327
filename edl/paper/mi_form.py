"""The appendix's "Choice of mutual information's form": EDL with r = q(z|s) against r = log q(s|z)."""

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillModel
from edl.evaluate.skill_rollouts import last_states
from edl.paper import recipes
from edl.paper.figure import FigureResult, PaperFigure, Picture, metric_phrase, note, rollout_panel
from edl.paper.measurements import Runs, end_spread, metric_per_seed, play_run, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, better
from edl.runs.result import Run

ENV = "square"
NAMES = {"reverse": "Reverse: q(z|s)", "forward": "Forward: log q(s|z)", "oracle": "EDL's default reward"}
PerRun = dict[str, list[float]]
"""Numbers per seed by run."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """The same oracle, discovery and PPO with each of the rewards; and the preset's own reward, for reference."""
    return {
        "reverse": recipes.edl(settings, ENV, "oracle", recipes.with_reward(settings, "posterior")),
        "forward": recipes.edl(settings, ENV, "oracle", recipes.with_reward(settings, "log_likelihood")),
        "oracle": recipes.edl(settings, ENV, "oracle"),
    }


def build(runs: Runs) -> FigureResult:
    """A table of the results of each form, and rollouts."""
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    last = {label: last_states(episodes) for label, episodes in played.items()}
    own_region = {label: own_region_share(runs[label], last[label]) for label in runs}
    spread = {label: end_spread(last[label]) for label in runs}
    success = {label: metric_per_seed(run, "goal_success") for label, run in runs.items()}

    def with_names(values: PerRun) -> PerRun:
        return {NAMES[label]: each for label, each in values.items()}

    table = {
        "goal_success": with_names(success),
        "ends in the skill's region": with_names(own_region),
        "spread of the ends": with_names(spread),
    }
    directions = {"ends in the skill's region": "higher", "spread of the ends": "lower"}
    row = [
        rollout_panel(runs[label], played[label], NAMES[label], note(runs[label], "goal_success")) for label in NAMES
    ]
    pictures = {
        "": Picture(intervals_figure(table, directions), "Mean, 95 % interval and seeds of each form of the reward."),
        "rollouts": Picture(panels_figure([row]), "Rollouts with each form of the reward."),
    }
    numbers = {"runs": run_numbers(runs), "ends_in_own_region": own_region, "spread": spread}
    return FigureResult(pictures, verdicts(success, own_region, spread), numbers)


def own_region_share(run: Run, last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Share of the rollouts that end in a state to which q(z|s) assigns their own skill."""

    def assign(skills: SkillModel, states: Float[Array, "k n 2"]) -> Int[Array, "k n"]:
        return jax.vmap(jax.vmap(skills.assign))(states)

    assigned = np.asarray(jax.jit(jax.vmap(assign))(run.skills, last.astype(np.float32)))
    return np.mean(assigned == np.arange(last.shape[1])[:, None], axis=(1, 2)).tolist()


def verdicts(success: PerRun, own_region: PerRun, spread: PerRun) -> list[Verdict]:
    """The appendix's predictions about the reverse form."""

    def forward_is_better(claim: str, what: str, values: PerRun, *, lower: bool = False) -> Verdict:
        forward, reverse = (Scores(NAMES[label], values[label]) for label in ("forward", "reverse"))
        return better(claim, what, forward, reverse, lower=lower)

    return [
        forward_is_better(
            "The reward of the reverse form is sparse, which hinders training: fewer skills get to their region.",
            "share of rollouts that end in the region of their skill",
            own_region,
        ),
        forward_is_better(
            "The reward of the reverse form is constant within a region, which makes skills unpredictable.",
            "mean distance of a rollout's end from the mean end of its skill",
            spread,
            lower=True,
        ),
        forward_is_better(
            "The forward form ends at its goals more often than the reverse form.",
            metric_phrase("goal_success"),
            success,
        ),
    ]


FIGURE = PaperFigure("The form of the mutual information", define_runs, build)

"""The appendix's "Choice of mutual information's form": EDL with r = q(z|s) against r = log q(s|z)."""

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillModel
from edl.paper import recipes
from edl.paper.figure import Made, PaperFigure, Picture, Runs, ends, first, note, scores
from edl.paper.landscapes import spread
from edl.paper.library import numbers_of, per_seed, play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better
from edl.runs.result import Run

ENV = "square"
NAMES = {"reverse": "Reverse: q(z|s)", "forward": "Forward: log q(s|z)", "oracle": "EDL's default reward"}


def needed(grid: Grid) -> dict[str, Recipe]:
    """The same oracle, discovery and PPO with each of the rewards; and the preset's own, for reference."""
    return {
        "reverse": recipes.edl(grid, ENV, "oracle", recipes.of_form(grid, "posterior")),
        "forward": recipes.edl(grid, ENV, "oracle", recipes.of_form(grid, "log_likelihood")),
        "oracle": recipes.edl(grid, ENV, "oracle"),
    }


def make(runs: Runs) -> Made:
    """Rollouts, and a table of what each form comes to."""
    from edl.figures.intervals import intervals_figure
    from edl.figures.panels import Panel, panels_figure

    played = {label: play(run) for label, run in runs.items()}
    last = {label: ends(episodes) for label, episodes in played.items()}
    own = {label: own_region(runs[label], last[label]) for label in runs}
    wide = {label: spread(last[label]) for label in runs}

    def panel(label: str) -> Panel:
        run = runs[label]
        assert run.layout is not None
        assert run.skills is not None
        goals = np.asarray(run.skills.goals[0])
        return Panel(run.layout, NAMES[label], note(run, "goal_success"), first(played[label]), goals)

    def named(values: dict[str, list[float]]) -> dict[str, list[float]]:
        return {NAMES[label]: each for label, each in values.items()}

    table = {
        "goal_success": named({label: per_seed(run, "goal_success") for label, run in runs.items()}),
        "ends in the skill's region": named(own),
        "spread of the ends": named(wide),
    }
    kinds = {"goal_success": "higher", "ends in the skill's region": "higher", "spread of the ends": "lower"}
    pictures = {
        "": Picture(intervals_figure(table, kinds), "Mean, 95 % interval and seeds of each form of the reward."),
        "rollouts": Picture(panels_figure([[panel(label) for label in NAMES]]), "The same, as rollouts."),
    }
    numbers = {"runs": numbers_of(dict(runs)), "ends_in_own_region": own, "spread": wide}
    return Made(pictures, verdicts(runs, own, wide), numbers)


def own_region(run: Run, last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Share of the rollouts that end where q(z|s) names their skill."""

    def one(skills: SkillModel, states: Float[Array, "k n 2"]) -> Int[Array, "k n"]:
        return jax.vmap(jax.vmap(skills.assign))(states)

    named = np.asarray(jax.jit(jax.vmap(one))(run.skills, last.astype(np.float32)))
    return np.mean(named == np.arange(last.shape[1])[:, None], axis=(1, 2)).tolist()


def verdicts(runs: Runs, own: dict[str, list[float]], wide: dict[str, list[float]]) -> list[Verdict]:
    """What the appendix foresees of the reverse form."""
    forward, reverse = ((NAMES[label], own[label], wide[label]) for label in ("forward", "reverse"))
    return [
        better(
            "The reward of the reverse form is sparse, which hinders training: fewer skills get to their region.",
            "share of rollouts that end in the region of their skill",
            Scores(forward[0], forward[1]),
            Scores(reverse[0], reverse[1]),
        ),
        better(
            "The reverse form pays the same all over a region, which makes skills unpredictable.",
            "mean distance of ends from their skill's mean end",
            Scores(forward[0], forward[2]),
            Scores(reverse[0], reverse[2]),
            lower=True,
        ),
        better(
            "The forward form ends at its goals more often than the reverse form.",
            "share of rollouts that reach their goal",
            scores(runs, "forward", "goal_success")._replace(label=forward[0]),
            scores(runs, "reverse", "goal_success")._replace(label=reverse[0]),
        ),
    ]


FIGURE = PaperFigure("The form of the mutual information", needed, make)

"""Figure 5, "Encouraging specific behaviors": a prior that skills should be on the right side of the tree."""

import numpy as np
from jaxtyping import Float

from edl.paper import recipes
from edl.paper.figure import BASELINES, LABELS, Made, PaperFigure, Picture, Runs, ends, first, scores
from edl.paper.library import numbers_of, play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, together, within

ENV = "tree"
PRIOR = "x > 0"


def needed(grid: Grid) -> dict[str, Recipe]:
    """Both baselines, which have no place for a prior, and EDL without and with it."""
    return {
        **{method: recipes.baseline(grid, ENV, method) for method in BASELINES},
        "no_prior": recipes.edl(grid, ENV, "oracle"),
        "prior": recipes.edl(grid, ENV, "oracle", region=PRIOR),
    }


def make(runs: Runs) -> Made:
    """Rollouts, and the share that ends on the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play(run) for label, run in runs.items()}
    shares = {label: right_share(ends(episodes)) for label, episodes in played.items()}

    def panel(label: str) -> Panel:
        run = runs[label]
        assert run.layout is not None
        goals = None if run.skills is None else np.asarray(run.skills.goals[0])
        note = f"{shares[label][0]:.0%} of the rollouts end on the right"
        return Panel(run.layout, LABELS[label], note, first(played[label]), goals)

    picture = panels_figure([[panel(label) for label in row] for row in (BASELINES, ("no_prior", "prior"))], side=4.4)
    caption = "Top: baselines know no prior. Bottom: EDL without and with the prior x > 0."
    numbers = {"runs": numbers_of(dict(runs)), "ends_on_the_right": shares}
    return Made({"": Picture(picture, caption)}, verdicts(runs, shares), numbers)


def right_share(last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Share of the rollouts of each seed that end where the prior wants them."""
    return np.mean(last[..., 0] > 0, axis=(1, 2)).tolist()


def verdicts(runs: Runs, shares: dict[str, list[float]]) -> list[Verdict]:
    """The claims of the paper about priors."""
    share = {label: Scores(LABELS[label], values) for label, values in shares.items()}
    what = "share of rollouts that end on the right side"
    distance = {label: scores(runs, label, "zero_shot_distance") for label in runs}
    return [
        within("With the prior, EDL devotes all its skills to the right side.", what, share["prior"], low=0.95),
        together(
            "Without it, EDL learns skills on both sides, across the whole maze.",
            [
                within("", what, share["no_prior"], low=0.3, high=0.7),
                *(better("", "zero-shot distance", distance["no_prior"], distance[x], lower=True) for x in BASELINES),
            ],
        ),
        together(
            "Baselines are agnostic to the prior: they have no place for it.",
            [within("", what, share[label], high=0.95) for label in BASELINES],
        ),
    ]


FIGURE = PaperFigure("A prior over behaviours", needed, make)

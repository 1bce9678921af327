"""The appendix's gridworld: with perfect densities, both forms of the mutual information give new states no reward."""

import numpy as np

from edl.evaluate.theory import Landscape, gridworld_landscape
from edl.paper.figure import FigureResult, PaperFigure, Picture
from edl.paper.measurements import Runs
from edl.paper.verdict import Scores, Verdict, at_most, between, judge

TOLERANCE = 1e-6
MINUS_INFINITY = -100.0
"""Rewards below this value count as minus infinity, which a finite epsilon cannot reach."""


def build(runs: Runs) -> FigureResult:
    """rho(s|z) above, r(s, z) below, one column per skill."""
    from edl.figures.gridworld import gridworld_figure

    landscape = gridworld_landscape()
    numbers = extreme_rewards(landscape)
    caption = (
        "Two skills on a gridworld, assuming perfect density estimation. Top: the states that each skill visits, from "
        "the red tile. Bottom: its reward. The reward is 0 in states that no skill has seen and log 2 in known states "
        "that only this skill visits. Crosses mark states that only the other skill visits; their reward is minus "
        "infinity."
    )
    picture = Picture(gridworld_figure(landscape.visits, landscape.reverse), caption)
    return FigureResult({"": picture}, verdicts(numbers), numbers)


def extreme_rewards(landscape: Landscape) -> dict[str, float]:
    """The largest rewards of known and of unseen states, and the largest difference between the two forms."""
    reverse, forward = landscape.reverse, landscape.forward
    unseen = np.sum(landscape.visits, axis=0) == 0
    finite = np.isfinite(reverse)
    return {
        "num_skills": float(len(landscape.visits)),
        "greatest_known": float(np.max(reverse[:, ~unseen])),
        "greatest_new": float(np.max(np.abs(np.concatenate([form[:, unseen] for form in (reverse, forward)])))),
        "forms_differ": float(np.max(np.abs(reverse[finite] - forward[finite]))),
        "forward_where_reverse_is_minus_infinity": float(np.max(forward[~finite], initial=-np.inf)),
        "unseen_share": float(np.mean(unseen)),
    }


def verdicts(numbers: dict[str, float]) -> list[Verdict]:
    """The claims of the theory. The numbers are exact: there are no seeds."""
    limit = float(np.log(numbers["num_skills"]))

    def exact(label: str, name: str) -> Scores:
        return Scores(label, [numbers[name]])

    elsewhere = exact("largest forward form", "forward_where_reverse_is_minus_infinity")
    return [
        judge(
            "Known states can receive a reward of up to log N; previously unseen states will receive a smaller reward "
            "of 0.",
            f"The largest reward of a known state is log N = {limit:.6f}, and the largest of the "
            f"{numbers['unseen_share']:.0%} of the tiles that no skill has seen is 0, up to {TOLERANCE:g}.",
            [
                between("reward", exact("known states", "greatest_known"), limit - TOLERANCE, limit + TOLERANCE),
                at_most("reward", exact("unseen states", "greatest_new"), TOLERANCE),
            ],
            source="theory",
        ),
        judge(
            "Both forms of the mutual information generate the same reward landscape.",
            f"They differ by at most {TOLERANCE:g} where both are finite. Where the reverse form is minus infinity, "
            f"the forward form is below {MINUS_INFINITY:g}.",
            [
                at_most("reward", exact("largest difference of the forms", "forms_differ"), TOLERANCE),
                at_most("reward where the reverse form is minus infinity", elsewhere, MINUS_INFINITY),
            ],
            source="theory",
        ),
    ]


FIGURE = PaperFigure("The theory on a gridworld", lambda settings: {}, build)

"""The appendix's gridworld: with perfect densities, both forms of the mutual information give new states no reward."""

import numpy as np

from edl.evaluate.theory import Landscape, gridworld_landscape
from edl.paper.figure import FigureResult, PaperFigure, Picture
from edl.paper.measurements import Runs
from edl.paper.verdict import Verdict

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
    """The claims of the theory, which hold exactly."""
    limit = float(np.log(numbers["num_skills"]))
    known, new, difference = (numbers[name] for name in ("greatest_known", "greatest_new", "forms_differ"))
    elsewhere = numbers["forward_where_reverse_is_minus_infinity"]
    return [
        Verdict(
            "The reward of known states is at most log N; the reward of states that were never seen is zero.",
            f"greatest reward of a known state {known:.6f} (log N = {limit:.6f}), of an unseen state {new:.2g}; exact, "
            f"{numbers['unseen_share']:.0%} of the tiles are unseen",
            abs(known - limit) < TOLERANCE and new < TOLERANCE,
            1,
        ),
        Verdict(
            "Both forms of the mutual information generate the same reward landscape.",
            f"they differ by at most {difference:.2g} in tiles where both are finite; where the reverse form is minus "
            f"infinity, the forward form is at most {elsewhere:.3g}",
            difference < TOLERANCE and elsewhere < MINUS_INFINITY,
            1,
        ),
    ]


FIGURE = PaperFigure("The theory on a gridworld", lambda settings: {}, build)

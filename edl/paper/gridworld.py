"""The appendix's gridworld: with perfect densities, both forms of mutual information pay nothing for what is new."""

import numpy as np

from edl.evaluate.theory import Landscape, gridworld_landscape
from edl.paper.figure import Made, PaperFigure, Picture, Runs
from edl.paper.verdict import Verdict

EXACT = 1e-6
NEVER = -100.0
"""Less than this stands for minus infinity, which a finite epsilon cannot reach."""


def make(runs: Runs) -> Made:
    """rho(s|z) above, r(s, z) below, a column for each skill."""
    from edl.figures.gridworld import gridworld_figure

    found = gridworld_landscape()
    numbers = facts(found)
    caption = (
        "Two skills on a gridworld, assuming perfect density estimation. Top: where each goes from the red tile. "
        "Bottom: what it is paid. States that nobody has seen pay 0; known states that only this skill visits pay "
        "log 2; crosses mark those that only the other visits, where the reward is minus infinity."
    )
    picture = Picture(gridworld_figure(found.visits, found.reverse), caption)
    return Made({"": picture}, verdicts(numbers), numbers)


def facts(found: Landscape) -> dict[str, float]:
    """The rewards that the analysis is about: the greatest one, and those of unseen states; and where forms differ."""
    unseen = np.sum(found.visits, axis=0) == 0
    finite = np.isfinite(found.reverse)
    return {
        "num_skills": float(len(found.visits)),
        "greatest_known": float(np.max(found.reverse[:, ~unseen])),
        "greatest_new": float(np.max(np.abs(np.concatenate([f[:, unseen] for f in (found.reverse, found.forward)])))),
        "forms_differ": float(np.max(np.abs(found.reverse[finite] - found.forward[finite]))),
        "forward_where_reverse_is_minus_infinity": float(np.max(found.forward[~finite], initial=-np.inf)),
        "unseen_share": float(np.mean(unseen)),
    }


def verdicts(numbers: dict[str, float]) -> list[Verdict]:
    """The theory's claims, exactly."""
    limit = float(np.log(numbers["num_skills"]))
    known, new, differ = (numbers[name] for name in ("greatest_known", "greatest_new", "forms_differ"))
    beyond = numbers["forward_where_reverse_is_minus_infinity"]
    return [
        Verdict(
            "Known states pay up to log N; states that were never seen pay nothing.",
            f"greatest reward of a known state {known:.6f} (log N = {limit:.6f}), of an unseen one {new:.2g}; exact, "
            f"{numbers['unseen_share']:.0%} of the tiles are unseen",
            abs(known - limit) < EXACT and new < EXACT,
            1,
        ),
        Verdict(
            "Both forms of the mutual information generate the same reward landscape.",
            f"they differ by at most {differ:.2g} where finite; where one is minus infinity, the other is {beyond:.3g}",
            differ < EXACT and beyond < NEVER,
            1,
        ),
    ]


FIGURE = PaperFigure("The theory on a gridworld", lambda grid: {}, make)

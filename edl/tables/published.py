"""Numbers that papers report for mazes like ours, next to ours, with a verdict and the reason for a difference.

A verdict compares our 95 % interval with the published mean: *higher*, *lower*, or *equal* if the mean lies inside.
"""

from collections.abc import Mapping
from typing import NamedTuple

from edl.tables.markdown import NONE, facts_line, markdown_table, mean_cell, mean_steps_cell
from edl.tables.table import LEADS_MAZES, Result, Results

LEADS = {
    "metra": (92.8, 78.0, 54.8),
    "csd": (97.4, 79.8, 64.0),
    "lsd": (99.8, 79.8, 70.0),
    "RND": (76.6, 39.6, 30.8),
    "LEADS": (100.0, 96.0, 90.8),
}
"""Coverage in percent of the easy, the U-shaped and the hard maze (Le Tolguenec et al., 2024), quoted second-hand."""
LEADS_REASON = (
    "Published is coverage in percent by an agent that moves up to 0.04 cells per step for 200 steps and stops at "
    "walls. Ours is skill_coverage by one that moves up to 0.95 cells for 50 steps and slides along walls, with ten "
    "skills and 20 rollouts each. So a verdict says how hard the maze is for our agent, and not which code is better."
)


class Information(NamedTuple):
    """A published mutual information on square in nats, and why ours may differ."""

    value: float
    reason: str


CELLS = "ours counts unit cells, in which skills that differ by less are the same"
INFORMATION: Mapping[str, Information] = {
    "reverse_mi": Information(2.26, CELLS),
    "forward_mi": Information(2.24, f"{CELLS}; our settings are tuned for distance, not for information"),
    "becl": Information(2.18, f"{CELLS}; ours learns with SAC"),
    "cic": Information(1.71, "as above; z is continuous, and ten of its values are evaluated"),
}
"""I(S;Z) on square with ten skills, of at most log 10 = 2.30 nats, from the curves of the authors of BeCL (2023). The
curves do not say how they estimate it."""
OTHER_ESTIMATOR = (
    "The estimators differ: ours is the plug-in estimate over unit cells, and the published curves do not name theirs. "
    "So a verdict compares two numbers, and not two methods."
)


def verdict(result: Result, metric: str, value: float, scale: float = 1.0) -> str:
    """Whether our interval lies above or below a published mean."""
    if metric not in result.get("mean", {}):
        return NONE
    low, high = (scale * end for end in result["ci95"][metric])
    return "higher" if low > value else "lower" if high < value else "equal"


def leads_view(results: Results) -> str:
    """skill_coverage of every method in the mazes of LEADS, in percent, and the published numbers."""
    found = {key: each for key, each in results.items() if each["env"] in LEADS_MAZES}
    if not found:
        return "The mazes of LEADS: not measured."
    lines = []
    for method in dict.fromkeys([*(each["method"] for each in found.values()), *LEADS]):
        line = [f"`{method}`" if any(each["method"] == method for each in found.values()) else method]
        for maze, value in zip(LEADS_MAZES, LEADS.get(method, (None,) * 3), strict=True):
            each = found.get(f"{maze}/{method}", {})
            share = each.get("mean", {}).get("skill_coverage")
            ours = NONE if share is None else f"{100 * share:.1f}"
            published = NONE if value is None else f"{value:.1f}"
            judged = NONE if value is None else verdict(each, "skill_coverage", value, 100.0)
            line.append(f"{ours} / {published} / {judged}" if value is not None else ours)
        lines.append([*line, mean_steps_cell([each for each in found.values() if each["method"] == method])])
    head = ["method", *(f"{maze}: ours / published / verdict" for maze in LEADS_MAZES), "steps"]
    facts = f"{facts_line(found)} {LEADS_REASON} `steps` are ours: the mean per run over the mazes."
    return f"{facts}\n\n{markdown_table(head, lines)}"


def information_view(results: Results) -> str:
    """I(S;Z) on square next to the published values, and the accuracy of a new classifier."""
    lines, found = [], {f"square/{method}": results.get(f"square/{method}", {}) for method in INFORMATION}
    for method, (value, reason) in INFORMATION.items():
        each = found[f"square/{method}"]
        measured = [mean_cell(each, name) for name in ("mutual_information", "discriminability")]
        judged = verdict(each, "mutual_information", value)
        lines.append([f"`{method}`", f"{value:.2f}", *measured, judged, reason])
    head = ["method", "MI, published", "MI, ours", "discriminability, ours", "verdict", "reason"]
    measured = {key: each for key, each in found.items() if each}
    facts = f"{facts_line(measured)} {OTHER_ESTIMATOR}" if measured else OTHER_ESTIMATOR
    return f"{facts}\n\n{markdown_table(head, lines)}"

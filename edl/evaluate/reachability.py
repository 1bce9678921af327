"""How often an explorer that aims at visited states reaches them, and a note if that is rare."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LATEST = 10
"""Number of last iterations of the explorer that count."""
RELIABLE = 0.6
"""Minimum share of the attempts that are reached in an env whose states can be reached on purpose."""


def reachability_note(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """A sentence if few of the visited states are reached on purpose; None if enough are, or if nothing is known.

    ``rows`` are the rows of the log. Only explorers that aim at goals (`hindsight`) log their success.
    """
    found = [row["goal_success"] for row in rows if row.get("stage") == "explore" and "goal_success" in row]
    if not found:
        return None
    share = float(np.mean(np.asarray(found[-LATEST:], float)))
    if not share < RELIABLE:  # NaN, in a seed that failed, says nothing
        return None
    return (
        f"the explorer reached {100 * share:.0f} % of the visited states that it aimed at. Goals were placed among the "
        "states that it reaches, but many states of this env cannot be reached on purpose, or not yet. Train longer "
        "(--explorer.sac.iterations), or select fewer --features. docs/when_it_fails.md has the causes."
    )

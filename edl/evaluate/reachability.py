"""How often an explorer that aims at visited states reaches them, and a note if that is rare."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LATEST = 10
"""Number of last iterations of the explorer that count."""
RELIABLE = 0.6
"""Minimum share of the attempts that are reached in an env whose states can be reached on purpose."""


def reachability_note(rows: Iterable[Mapping[str, Any]], num_features: int) -> str | None:
    """A sentence if few of the visited states are reached on purpose; None if enough are, or if nothing is known.

    ``rows`` are the rows of the log. Only explorers that aim at goals (`hindsight`) log their success. A goal is about
    ``num_features`` features.
    """
    found = [row["goal_success"] for row in rows if row.get("stage") == "explore" and "goal_success" in row]
    if not found:
        return None
    share = float(np.mean(np.asarray(found[-LATEST:], float)))
    if not share < RELIABLE:  # NaN, in a seed that failed, says nothing
        return None
    several = f"A goal fixes {num_features} features at once: select fewer --features. " if num_features > 2 else ""
    return (
        f"the explorer reached {100 * share:.0f} % of the visited states that it aimed at. Goals were placed among the "
        f"states that it reaches, but many states of this env cannot be reached on purpose, or not yet. {several}If a "
        "small change of an action changes everything later, use a shorter --horizon. Otherwise train longer "
        "(--explorer.sac.iterations). docs/when_it_fails.md has the causes."
    )

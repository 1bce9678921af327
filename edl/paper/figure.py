"""What a figure of the paper is: the runs it needs, and what is made of them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from edl.envs.rollout import Episode
from edl.evaluate.evaluate import last_states
from edl.paper.library import per_seed
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict
from edl.runs.result import Run

Runs = Mapping[str, Run]
"""Runs by the label that a figure gives them."""


class Picture(NamedTuple):
    """A matplotlib figure and what is to be seen on it."""

    figure: Any
    caption: str


class Made(NamedTuple):
    """What came of a figure. The picture named "" bears the figure's own name, others add theirs."""

    pictures: Mapping[str, Picture]
    verdicts: list[Verdict]
    numbers: Mapping[str, Any]


class PaperFigure(NamedTuple):
    """A figure of the paper, or of ours in its place."""

    title: str
    recipes: Callable[[Grid], dict[str, Recipe]]
    make: Callable[[Runs], Made]


BASELINES = ("forward_mi", "reverse_mi")
"""The paper's own two, one for each form of the mutual information."""
LABELS = {
    "forward_mi": "Forward MI",
    "reverse_mi": "Reverse MI",
    "untrained": "Untrained policy",
    "edl": "EDL",
    "oracle": "EDL, oracle",
    "siblings": "EDL, oracle, siblings",
    "straight": "EDL, oracle, no siblings",
    "on_foot": "EDL, oracle, walking distance",
    "ours": "EDL, no oracle (ours)",
    "smm": "EDL, SMM",
    "prior": "EDL with the prior",
    "no_prior": "EDL without prior",
}
"""How runs are called in pictures."""


def scores(runs: Runs, label: str, metric: str) -> Scores:
    """A metric of a run over seeds, with the name of the run."""
    return Scores(LABELS.get(label, label), per_seed(runs[label], metric))


def ends(episodes: Episode) -> Float[np.ndarray, "seeds k n s"]:
    """The last states of all rollouts of all seeds."""
    return last_states(episodes)


def first(episodes: Episode) -> Float[np.ndarray, "k n t s"]:
    """The paths of the first seed, which is the one that pictures show: nobody picked it."""
    return np.asarray(episodes.features[0])


def note(made: Run, *metrics: str) -> str:
    """A line below a panel's title: these numbers of the first seed, which is the one shown."""
    words = {
        "goal_success": "goals reached {:.0%}",
        "zero_shot_distance": "zero-shot distance {:.2f}",
        "skill_coverage": "cells visited {:.0%}",
    }
    return ", ".join(words[metric].format(per_seed(made, metric)[0]) for metric in metrics)

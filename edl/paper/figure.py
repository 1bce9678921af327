"""What a figure of the paper is: the runs it needs, and the pictures, verdicts and numbers built from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edl.envs.rollout import Episode
from edl.evaluate.metrics import METRICS
from edl.paper.measurements import Runs, first_seed_paths, metric_per_seed
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Part, Scores, Verdict, greater, less
from edl.runs.result import Run

if TYPE_CHECKING:
    from edl.figures.panels import Panel


class Picture(NamedTuple):
    """A matplotlib figure and its caption."""

    figure: Any
    caption: str


class FigureResult(NamedTuple):
    """Pictures, verdicts and numbers. The file of picture "" has the figure's name; other pictures append theirs."""

    pictures: Mapping[str, Picture]
    verdicts: list[Verdict]
    numbers: Mapping[str, Any]


class PaperFigure(NamedTuple):
    """A figure of the paper. ``define_runs`` returns its runs by label, and ``build`` makes the figure from them."""

    title: str
    define_runs: Callable[[ReproductionConfig], dict[str, Recipe]]
    build: Callable[[Runs], FigureResult]


BASELINES = ("forward_mi", "reverse_mi")
"""The paper's two baselines, one for each form of the mutual information."""
LABELS = {
    "forward_mi": "Forward MI",
    "reverse_mi": "Reverse MI",
    "untrained": "Untrained policy",
    "siblings": "EDL, oracle, siblings",
    "no_siblings": "EDL, oracle, no siblings",
    "smm": "EDL, SMM, siblings",
    "walking": "EDL, oracle (ours)",
    "smm_walking": "EDL, SMM (ours)",
    "ours": "EDL, no oracle (ours)",
    "prior": "EDL with the prior",
    "no_prior": "EDL without prior",
    "prior_walking": "EDL with the prior (ours)",
    "no_prior_walking": "EDL without prior (ours)",
}
"""Names of runs in pictures and verdicts. EDL learns with Euclidean distance, as in the paper; ours with walking."""


def scores(runs: Runs, label: str, metric: str) -> Scores:
    """A metric of a run, per seed, with the run's name."""
    return Scores(LABELS.get(label, label), metric_per_seed(runs[label], metric))


def better_run(runs: Runs, metric: str, label: str, other: str) -> Part:
    """Run ``label`` is better than ``other`` by a metric. The table of metrics says which direction is better."""
    compare = less if METRICS[metric].direction == "lower" else greater
    return compare(metric_phrase(metric), scores(runs, label, metric), scores(runs, other, metric))


def metric_phrase(metric: str) -> str:
    """The label of a metric, for the middle of a sentence."""
    return METRICS[metric].label.lower()


def note(run: Run, *metrics: str) -> str:
    """The line below a panel's title: metrics of the first seed, which is the seed that panels show."""
    first = {metric: metric_per_seed(run, metric)[0] for metric in metrics}
    return ", ".join(
        f"{metric_phrase(metric)} {METRICS[metric].format(value)}"
        for metric, value in first.items()
        if value is not None
    )


def rollout_panel(
    run: Run, episodes: Episode, title: str, note: str = "", colours: Sequence[str] | None = None
) -> "Panel":
    """The rollouts and goals of a run's first seed in its maze."""
    from edl.figures.panels import Panel  # importing matplotlib takes half a second

    assert run.layout is not None  # every env of the paper is a maze
    goals = None if run.skills is None else np.asarray(run.skills.goals[0])
    return Panel(run.layout, title, note, first_seed_paths(episodes), goals, colours)

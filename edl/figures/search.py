"""A metric over the points of a search: a plot per setting, with all points."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from edl.figures.style import ALARM, INK, MUTED, new_figure

SIZE = (2.6, 2.2)
ACROSS = 4


def search_plot(
    labels: Sequence[str],
    values: Sequence[Sequence[Any]],
    scores: Float[np.ndarray, " n"],
    title: str,
    best: int | None = None,
    logs: Sequence[bool] = (),
) -> Figure:
    """The score of every point against each of its settings; the ``best`` point is red. ``logs`` have a log axis."""
    columns = min(len(labels), ACROSS)
    rows = math.ceil(len(labels) / columns)
    figure = new_figure(columns * SIZE[0] + 0.4, rows * SIZE[1] + 0.5)
    for number, (label, each) in enumerate(zip(labels, values, strict=True)):
        axes = figure.add_subplot(rows, columns, number + 1)
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in each)
        words = list(dict.fromkeys(map(str, each)))
        places = np.array(each, float) if numeric else np.array([words.index(str(value)) for value in each])
        axes.scatter(places, scores, s=14, color=MUTED, linewidths=0)
        if best is not None:
            axes.scatter(places[best : best + 1], scores[best : best + 1], s=30, color=ALARM, linewidths=0)
        if numeric and number < len(logs) and logs[number]:
            axes.set_xscale("log")
        if not numeric:
            axes.set_xticks(range(len(words)), words)
        axes.set_xlabel(label, fontsize=8.5, color=INK)
        axes.tick_params(colors=MUTED, labelsize=7.5)
        axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.14, right=0.97, bottom=0.22, top=0.82, wspace=0.35, hspace=0.6)
    figure.text(0.02, 0.97, title, fontsize=10.5, fontweight="bold", color=INK, va="top", parse_math=False)
    return figure

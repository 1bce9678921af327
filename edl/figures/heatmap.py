"""A metric over a sweep: the last axis goes right, the one before it up, and other axes are panels.

Of several axes of panels, the last one goes right as well, and the others down.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from edl.figures.style import ALARM, INK, MUTED, new_figure

CELL = (0.78, 0.42)
"""Width and height of a cell in inches."""
MARGIN = (0.95, 0.75)
"""Width and height of the labels around a panel in inches."""
ACROSS = 4
"""Maximum number of panels per row."""
MISSING = "-"
"""Shown for a point without a score: it has failed, or was not evaluated."""


def heat_map(
    labels: Sequence[str],
    values: Sequence[Sequence[str]],
    scores: Float[np.ndarray, "*grid"],
    title: str,
    best: tuple[int, ...] | None = None,
    smaller_is_better: bool = False,
) -> Figure:
    """One cell per point with its score as colour and number; ``best`` has a red frame. A score may be NaN: missing."""
    while scores.ndim < 2:
        labels, values, scores = ["", *labels], [[""], *values], scores[None]
        best = None if best is None else (0, *best)
    *panel_values, row_values, column_values = values
    panels = list(itertools.product(*(range(len(each)) for each in panel_values)))
    columns = min(len(panel_values[-1]) if len(panel_values) > 1 else len(panels), ACROSS)
    rows = math.ceil(len(panels) / columns)
    width, height = len(column_values) * CELL[0] + MARGIN[0], len(row_values) * CELL[1] + MARGIN[1]
    figure = new_figure(max(columns * width, 3.6) + 0.15, rows * height + 0.35)
    size = figure.get_size_inches()
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    for number, index in enumerate(panels):
        row, column = divmod(number, columns)
        left, bottom = column * width + MARGIN[0] - 0.1, (rows - 1 - row) * height + 0.5
        box = (left / size[0], bottom / size[1], (width - MARGIN[0]) / size[0], (height - MARGIN[1]) / size[1])
        axes = figure.add_axes(box)
        frame = best[-2:] if best is not None and best[:-2] == index else None
        _panel(axes, scores[index], (low, high), frame, smaller_is_better)
        axes.set_xticks(range(len(column_values)), column_values)
        axes.set_yticks(range(len(row_values)), row_values)
        axes.set_xlabel(labels[-1], fontsize=8.5, color=INK)
        axes.set_ylabel(labels[-2], fontsize=8.5, color=INK)
        words = [f"{name} {each[i]}" for name, each, i in zip(labels[:-2], panel_values, index, strict=True)]
        axes.set_title(", ".join(words), fontsize=8, color=MUTED, loc="left", pad=3)
    top = 1 - 0.08 / size[1]
    figure.text(0.1 / size[0], top, title, fontsize=10.5, fontweight="bold", color=INK, va="top", parse_math=False)
    return figure


def _panel(
    axes: Axes,
    scores: Float[np.ndarray, "r c"],
    span: tuple[float, float],
    best: tuple[int, ...] | None,
    smaller_is_better: bool,
) -> None:
    low, high = span[0], max(span[1], span[0] + 1e-9)
    depth = (high - scores if smaller_is_better else scores - low) / (high - low)
    axes.imshow(depth, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    axes.tick_params(colors=MUTED, labelsize=7.5, length=0)
    axes.spines[:].set_visible(False)
    for (i, j), score in np.ndenumerate(scores):
        known = np.isfinite(score)
        ink = MUTED if not known else "white" if depth[i, j] > 0.55 else INK
        axes.text(j, i, f"{score:#.3g}" if known else MISSING, ha="center", va="center", fontsize=8, color=ink)
    if best is not None:
        style = {"fill": False, "edgecolor": ALARM, "linewidth": 2.0, "clip_on": False}
        axes.add_patch(Rectangle((best[1] - 0.5, best[0] - 0.5), 1, 1, **style))

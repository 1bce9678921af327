"""Runs side by side: one panel per metric, one row per run, with a dot at the mean and a line for its 95 % interval."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edl.evaluate.metrics import METRICS, label_of
from edl.evaluate.statistics import bootstrap
from edl.figures.palette import palette
from edl.figures.style import INK, MUTED, new_figure, style_axes

ROW, PANEL, TOP, LOW, RIGHT = 0.34, 2.5, 0.5, 0.48, 0.35
"""Inches: height of a row, width of a panel, margins above and below, and right of each panel."""
LETTER = 0.082
"""Width of a letter of the row names in inches."""


def intervals_figure(
    scores: Mapping[str, Mapping[str, Sequence[float] | None]], directions: Mapping[str, str] | None = None
) -> Figure:
    """``scores[metric][run]`` has one number per seed, or is None. Small dots are seeds.

    ``directions`` says "higher" or "lower" for quantities that are not in the table of metrics.
    """
    directions = {name: metric.direction for name, metric in METRICS.items()} | dict(directions or {})
    runs = list(dict.fromkeys(run for rows in scores.values() for run in rows))
    left = 0.3 + LETTER * max(map(len, runs))
    whole = (left + len(scores) * (PANEL + RIGHT), TOP + LOW + ROW * len(runs))
    figure = new_figure(*whole)
    for j, (metric, rows) in enumerate(scores.items()):
        box = (left + j * (PANEL + RIGHT), LOW, PANEL, ROW * len(runs))
        axes = figure.add_axes(tuple(np.array(box) / np.array([*whole, *whole])))
        style_axes(axes, grid="x")
        for i, (run, colour) in enumerate(zip(runs, palette(len(runs)), strict=True)):
            draw_row(axes, i, rows.get(run), colour)
        axes.set(ylim=(len(runs) - 0.5, -0.5), yticks=range(len(runs)))
        axes.set_yticklabels(runs if j == 0 else [], fontsize=9, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if metric in METRICS and METRICS[metric].is_share:
            axes.set_xlim(-0.02, 1.02)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
        figure.text(box[0] / whole[0], 1 - 0.24 / whole[1], label_of(metric), fontsize=10, fontweight="bold", color=INK)
        direction = directions.get(metric)
        axes.set_xlabel(f"{direction} is better" if direction else "", fontsize=8, color=MUTED)
    return figure


def draw_row(axes: Axes, row: int, values: Sequence[float] | None, colour: str) -> None:
    """Draw one run: its interval, its seeds and its mean."""
    if values is None or not len(values):
        axes.text(0.02, row, "none", transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=MUTED)
        return
    low, high = bootstrap([values])
    axes.plot([low, high], [row, row], color=colour, linewidth=3, alpha=0.55, solid_capstyle="round", zorder=2)
    axes.scatter(values, np.full(len(values), row), s=7, color=colour, alpha=0.5, linewidths=0, zorder=3)
    axes.scatter(np.mean(values), row, s=46, color=colour, edgecolor="white", linewidth=1, zorder=4)

"""Runs side by side: one panel per metric, one row per run.

Each row has two lines. Above, a small dot for every seed; dots that would overlap are stacked. Below, a diamond at the
mean on a bar with caps for its 95 % interval.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edl.evaluate.metrics import METRICS, label_of
from edl.evaluate.statistics import bootstrap
from edl.figures.palette import palette
from edl.figures.style import GRID, INK, MUTED, new_figure, style_axes

ROW, PANEL, TOP, LOW, RIGHT = 0.46, 2.6, 0.5, 0.48, 0.35
"""Inches: height of a row, width of a panel, margins above and below, and right of each panel."""
LETTER = 0.082
"""Width of a letter of the row names in inches."""
SEEDS, MEAN, STACK = -0.16, 0.17, 0.11
"""Positions in a row: of the seeds and of the mean relative to the middle, and the distance of stacked seeds."""
OVERLAP = 0.018
"""Seeds closer than this share of the axis are stacked."""
LEVELS = 3
"""Maximum number of stacked seeds. Further ones overlap."""
WITHOUT_GOALS = {"goal_success", "goal_distance"}
"""Metrics that methods without goals do not have."""


def intervals_figure(
    scores: Mapping[str, Mapping[str, Sequence[float] | None]],
    directions: Mapping[str, str] | None = None,
    missing: str = "none",
) -> Figure:
    """``scores[metric][run]`` has one number per seed, or is None.

    ``directions`` says "higher" or "lower" for quantities that are not in the table of metrics. ``missing`` is the text
    of a row without values.
    """
    directions = {name: metric.direction for name, metric in METRICS.items()} | dict(directions or {})
    runs = list(dict.fromkeys(run for rows in scores.values() for run in rows))
    left = 0.3 + LETTER * max(map(len, runs))
    whole = (left + len(scores) * (PANEL + RIGHT), TOP + LOW + ROW * len(runs))
    figure = new_figure(*whole)
    spans = {metric: axis_limits(metric, rows) for metric, rows in scores.items()}
    for j, (metric, rows) in enumerate(scores.items()):
        box = (left + j * (PANEL + RIGHT), LOW, PANEL, ROW * len(runs))
        axes = figure.add_axes(tuple(np.array(box) / np.array([*whole, *whole])))
        style_axes(axes, grid="x")
        for i, (run, colour) in enumerate(zip(runs, palette(len(runs)), strict=True)):
            draw_row(axes, i, rows.get(run), colour, spans[metric], "no goals" if metric in WITHOUT_GOALS else missing)
        axes.set(xlim=spans[metric], ylim=(len(runs) - 0.5, -0.5), yticks=range(len(runs)))
        axes.hlines(np.arange(1, len(runs)) - 0.5, *spans[metric], color=GRID, linewidth=0.8, zorder=0)
        axes.set_yticklabels(runs if j == 0 else [], fontsize=9, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if metric in METRICS and METRICS[metric].is_share:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
        figure.text(box[0] / whole[0], 1 - 0.24 / whole[1], label_of(metric), fontsize=10, fontweight="bold", color=INK)
        direction = directions.get(metric)
        axes.set_xlabel(f"{direction} is better" if direction else "", fontsize=8, color=MUTED)
    return figure


def axis_limits(metric: str, rows: Mapping[str, Sequence[float] | None]) -> tuple[float, float]:
    """[0, 1] for a share, otherwise the range of all seeds, with a margin."""
    every = [value for values in rows.values() for value in values or ()]
    if (metric in METRICS and METRICS[metric].is_share) or not every:
        return -0.02, 1.02
    margin = 0.05 * (max(every) - min(every)) or 0.5
    return min(every) - margin, max(every) + margin


def draw_row(
    axes: Axes, row: int, values: Sequence[float] | None, colour: str, span: tuple[float, float], missing: str
) -> None:
    """Draw one run: its seeds above, its mean and interval below; the text ``missing`` without values."""
    if values is None or not len(values):
        axes.text(0.02, row, missing, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=MUTED)
        return
    ordered = np.sort(np.asarray(values, float))
    heights = row + SEEDS - STACK * stack_levels(ordered, OVERLAP * (span[1] - span[0]))
    axes.scatter(ordered, heights, s=13, color=colour, alpha=0.75, linewidths=0, zorder=3, clip_on=False)
    low, high = bootstrap([values])
    below = row + MEAN
    axes.plot([low, high], [below, below], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
    axes.plot([low, high], [below, below], linestyle="none", marker="|", markersize=8, markeredgewidth=1.8,
              color=colour, zorder=3)  # fmt: skip
    axes.scatter(np.mean(values), below, s=34, marker="D", color=colour, edgecolor="white", linewidth=0.9, zorder=4)


def stack_levels(ordered: Float[np.ndarray, " n"], gap: float) -> Int[np.ndarray, " n"]:
    """The level of each dot, 0, 1 or 2: the lowest on which no earlier dot is nearer than ``gap``."""
    last = np.full(LEVELS, -np.inf)
    levels = np.zeros(len(ordered), int)
    for i, value in enumerate(ordered):
        free = np.flatnonzero(value - last >= gap)
        levels[i] = free[0] if len(free) else np.argmin(last)
        last[levels[i]] = value
    return levels

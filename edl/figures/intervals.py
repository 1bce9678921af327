"""Runs beside each other: for every metric a dot at the mean and a line over its 95 % interval, a row per run."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edl.evaluate.statistics import bootstrap
from edl.figures.numbers import QUANTITIES, label_of
from edl.figures.palette import palette
from edl.figures.style import INK, MUTED, new_figure, quieten

ROW, PANEL, TOP, LOW, RIGHT = 0.34, 2.5, 0.5, 0.48, 0.2
LETTER = 0.082
"""Inches that a letter of the rows' names takes."""


def intervals_figure(scores: Mapping[str, Mapping[str, Sequence[float] | None]], better: Mapping[str, str]) -> Figure:
    """``scores[metric][run]`` has one number per seed, or None; ``better`` says of some metrics which way is good.

    Small dots are seeds.
    """
    runs = list(dict.fromkeys(run for rows in scores.values() for run in rows))
    left = 0.3 + LETTER * max(map(len, runs))
    whole = (left + len(scores) * (PANEL + RIGHT), TOP + LOW + ROW * len(runs))
    figure = new_figure(*whole)
    for j, (metric, rows) in enumerate(scores.items()):
        box = (left + j * (PANEL + RIGHT), LOW, PANEL, ROW * len(runs))
        axes = figure.add_axes(tuple(np.array(box) / np.array([*whole, *whole])))
        quieten(axes, grid="x")
        for i, (run, colour) in enumerate(zip(runs, palette(len(runs)), strict=True)):
            values = rows.get(run)
            if values is None or not len(values):
                axes.text(0.02, i, "none", transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=MUTED)
                continue
            low, high = bootstrap([values])
            axes.plot([low, high], [i, i], color=colour, linewidth=3, alpha=0.55, solid_capstyle="round", zorder=2)
            axes.scatter(values, np.full(len(values), i), s=7, color=colour, alpha=0.5, linewidths=0, zorder=3)
            axes.scatter(np.mean(values), i, s=46, color=colour, edgecolor="white", linewidth=1, zorder=4)
        axes.set(ylim=(len(runs) - 0.5, -0.5), yticks=range(len(runs)))
        axes.set_yticklabels(runs if j == 0 else [], fontsize=9, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if metric in QUANTITIES and QUANTITIES[metric].share:
            axes.set_xlim(-0.02, 1.02)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
        figure.text(box[0] / whole[0], 1 - 0.24 / whole[1], label_of(metric), fontsize=10, fontweight="bold", color=INK)
        axes.set_xlabel({"higher": "higher is better", "lower": "lower is better"}.get(better.get(metric, ""), ""),
                        fontsize=8, color=MUTED)  # fmt: skip
    return figure

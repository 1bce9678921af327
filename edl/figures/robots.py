"""Floor coverage while methods learn: over environment steps, and over the seconds of training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from edl.figures.curves import steps_axis
from edl.figures.palette import palette
from edl.figures.style import MUTED, SIDE, plot_figure, write_title

LEGEND = 2.7
"""Inches for the legend at the right of each panel."""
Curve = Sequence[Mapping[str, Any]]
"""Points with ``env_steps``, ``seconds`` and ``floor_coverage``, which has a value per seed."""


def coverage_figure(curves: Mapping[str, Curve], random: float | None = None, title: str = "Floor coverage") -> Figure:
    """One curve per method in two panels. Bands go from the lowest to the highest seed; dashed: random actions."""
    figure, (by_steps, by_time) = plot_figure(1.5 * SIDE, 3.4, columns=2, right=LEGEND)
    colours = palette(max(len(curves), 2))
    for (label, curve), colour in zip(curves.items(), colours, strict=False):
        _draw(by_steps, curve, "env_steps", colour, label)
        _draw(by_time, curve, "seconds", colour, label)
    for axes, text in ((by_steps, title), (by_time, "The same over time")):
        if random is not None:
            axes.axhline(random, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="random actions")
        axes.set(ylim=(0, None), xlim=(0, None), ylabel="unit cells of 48 rollouts")
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        write_title(axes, text)
    steps_axis(by_steps)
    by_time.set_xlabel("seconds of training, without compiling", fontsize=9)
    return figure


def _draw(axes: Axes, curve: Curve, axis: str, colour: str, label: str) -> None:
    x = np.array([point[axis] for point in curve], float)
    values = np.array([point["floor_coverage"] for point in curve], float).T
    axes.plot(x, values.mean(axis=0), color=colour, linewidth=1.8, zorder=3, label=label, marker="o", markersize=3)
    if len(values) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, linewidth=0)

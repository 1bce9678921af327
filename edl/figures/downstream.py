"""Learning curves of controllers: success over environment steps; a dashed line is the zero-shot success."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from edl.figures.curves import percent_axis, steps_axis
from edl.figures.palette import palette
from edl.figures.style import MUTED, SIDE, plot_figure, write_title

LEGEND = 1.9
"""Inches for the legend at the right: the curves go from bottom to top and leave no room inside the axes."""


def downstream_figure(results: Mapping[str, Mapping[str, Any]], title: str = "Sparse goals") -> Figure:
    """One curve per controller and one for PPO without skills. Bands: 5th to 95th percentile over seeds."""
    figure, (axes,) = plot_figure(1.4 * SIDE, 3.4, right=LEGEND)
    first = next(iter(results.values()))
    curves = {name: result["controller"]["curve"] for name, result in results.items()}
    curves["without skills"] = first["flat"]["curve"]
    for (name, curve), colour in zip(curves.items(), palette(len(curves)), strict=True):
        steps, values = np.asarray(curve["env_steps"]), np.asarray(curve["success"])
        axes.plot(steps, values.mean(axis=0), color=colour, linewidth=1.8, zorder=3, label=name)
        if len(values) > 1:
            low, high = np.percentile(values, [5, 95], axis=0)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.axhline(
        first["zero_shot"]["success"],
        color=MUTED,
        linewidth=1.0,
        linestyle=(0, (4, 3)),
        label=f"zero-shot, {next(iter(results))}",
    )
    axes.set(ylim=(0, 1.02), xlim=(0, None), ylabel="episodes that reach the goal")
    percent_axis(axes)
    steps_axis(axes)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    write_title(axes, title, f"{len(first['goals'])} goals")
    return figure

"""Learning curves of controllers: success over environment steps; a dashed line is the zero-shot success."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from edl.figures.curves import percent_axis, steps_axis
from edl.figures.palette import palette
from edl.figures.style import MUTED, SIDE, plot_figure, write_title

LEGEND = 1.9
"""Inches for the legend at the right: the curves go from bottom to top and leave no room inside the axes."""
FEW_CURVES = 4
"""The bands of more curves than this are paler, because they overlap."""
Results = Mapping[str, Mapping[str, Any]]
"""Results of `edl.runs.downstream`, by the label of the run."""


def downstream_figure(results: Results, title: str = "Sparse goals") -> Figure:
    """One curve per controller and per budget of PPO without skills. Bands: 5th to 95th percentile over seeds.

    The first panel counts the steps on the task. The second one adds the steps that trained the skills; it is left out
    if PPO without skills never had that many.
    """
    with_total = all("flat_full" in result for result in results.values())
    figure, panels = plot_figure(1.4 * SIDE, 3.4, columns=1 + with_total, right=LEGEND)
    first = next(iter(results.values()))
    on_task, colours = panels[0], palette(len(results) + 1)
    for (name, result), colour in zip(results.items(), colours[:-1], strict=True):
        _draw_curve(on_task, result["controller"]["curve"], colour, name)
    _draw_curve(on_task, first["flat"]["curve"], colours[-1], "without skills")
    on_task.axhline(
        first["zero_shot"]["success"],
        color=MUTED,
        linewidth=1.0,
        linestyle=(0, (4, 3)),
        label=f"zero-shot, {next(iter(results))}",
    )
    if with_total:
        _draw_total(panels[1], results, colours)
    for axes, text in zip(panels, (title, "The same, with pretraining"), strict=False):
        if len(colours) > FEW_CURVES:
            for band in axes.collections:
                band.set_alpha(0.07)
        axes.set(ylim=(0, 1.02), xlim=(0, None), ylabel="episodes that reach the goal")
        percent_axis(axes)
        steps_axis(axes)
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        write_title(axes, text, f"{len(first['goals'])} goals")
    return figure


def _draw_total(axes: Axes, results: Results, colours: list[str]) -> None:
    """Curves that begin after the steps that trained the skills, and PPO without skills with as many steps.

    Budgets that differ by less than 1 % are drawn once: they are the same steps, rounded up to whole iterations.
    """
    for (name, result), colour in zip(results.items(), colours[:-1], strict=True):
        offset = sum(result["steps"]["pretraining"].values())
        _draw_curve(axes, result["controller"]["curve"], colour, name, offset)
    budgets = {result["flat_full"]["env_steps"]: result["flat_full"] for result in results.values()}
    drawn = 0
    for steps, full in sorted(budgets.items()):
        if steps > 1.01 * drawn:
            _draw_curve(axes, full["curve"], colours[-1], None if drawn else "without skills")
            drawn = steps


def _draw_curve(axes: Axes, curve: Mapping[str, Any], colour: str, label: str | None, offset: int = 0) -> None:
    steps, values = offset + np.asarray(curve["env_steps"]), np.asarray(curve["success"])
    axes.plot(steps, values.mean(axis=0), color=colour, linewidth=1.8, zorder=3, label=label)
    if len(values) > 1:
        low, high = np.percentile(values, [5, 95], axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)

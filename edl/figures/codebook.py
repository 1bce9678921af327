"""Figures of stage 2: the share of p(s) that each code owns, its region, and where its goal was decoded."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from edl.envs.layouts import Layout
from edl.figures.curves import percent_axis
from edl.figures.maze import dot_area, env_figure, plane
from edl.figures.palette import palette
from edl.figures.skills import draw_goals
from edl.figures.style import ALARM, INK, MUTED, SIDE, evenly_spaced, plot_figure, write_title
from edl.nets.quantiser import perplexity


def usage_figure(usage: Float[np.ndarray, " k"], title: str = "Codebook usage") -> Figure:
    """A bar with the share of p(s) of each code, a line at the equal share, and the perplexity exp H(z)."""
    figure, (axes,) = plot_figure(max(SIDE, min(0.16 * len(usage), 9.0)), 2.9, right=0.42)
    axes.bar(np.arange(len(usage)), usage, color=palette(len(usage)), width=0.78, zorder=2)
    axes.axhline(1 / len(usage), color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    axes.annotate("equal", (1, 1 / len(usage)), xycoords=("axes fraction", "data"), xytext=(3, 0),
                  textcoords="offset points", va="center", fontsize=8, color=MUTED)  # fmt: skip
    for code in np.flatnonzero(np.asarray(usage) <= 0):
        axes.annotate("unused", (code, 0), xytext=(0, 3), textcoords="offset points", rotation=90, ha="center",
                      va="bottom", fontsize=8, fontweight="bold", color=ALARM)  # fmt: skip
    axes.set(xlabel="code", ylabel="share of p(s)", xlim=(-0.6, len(usage) - 0.4))
    percent_axis(axes)
    if len(usage) <= 25:
        axes.set_xticks(np.arange(len(usage)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    write_title(axes, title, f"perplexity {float(perplexity(jnp.asarray(usage))):.1f} of {len(usage)}")
    return figure


def assignment_figure(
    layout: Layout | None,
    samples: Float[np.ndarray, "n s"],
    assignments: Int[np.ndarray, " n"],
    goals: Float[np.ndarray, "k s"],
    decoded: Float[np.ndarray, "k s"] | None = None,
    off_support: Bool[np.ndarray, " k"] | None = None,
    title: str = "Region of each code",
) -> Figure:
    """Explored states in the colour of argmax_z q(z|s), and the goals; arrows show where decoded goals were moved.

    A red cross marks a decoded goal that is ``off_support``, that is, far from all explored states.
    """
    off = np.zeros(len(goals), bool) if off_support is None else np.asarray(off_support)
    note = f"{off.sum()} of {len(goals)} goals decoded off the explored states" if off.any() else f"{len(goals)} codes"
    figure, axes = env_figure(layout, title, note)
    shown = evenly_spaced(len(samples))
    colours = np.array(palette(len(goals)))[np.asarray(assignments[shown])]
    dots = plane(samples[shown])
    axes.scatter(*dots.T, s=dot_area(axes, len(dots)), c=colours, alpha=0.4, linewidths=0, zorder=2, rasterized=True)
    if decoded is not None:
        draw_decoded(axes, plane(decoded), plane(goals), off)
    draw_goals(axes, plane(goals))
    return figure


def draw_decoded(
    axes: Axes, decoded: Float[np.ndarray, "k 2"], goals: Float[np.ndarray, "k 2"], off_support: Bool[np.ndarray, " k"]
) -> None:
    """Draw an arrow from each decoded goal that visibly moved to its goal, and a cross where it was off the support."""
    extent = max(np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim()))
    colours = palette(len(goals))
    for index in np.flatnonzero(np.linalg.norm(goals - decoded, axis=-1) > 0.02 * extent):
        arrow = {"arrowstyle": "-|>", "color": colours[index], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 4}
        axes.annotate("", goals[index], decoded[index], arrowprops=arrow, annotation_clip=False, zorder=7)
    if off_support.any():
        axes.scatter(*decoded[off_support].T, marker="x", s=34, color=ALARM, linewidth=1.8, zorder=8, clip_on=False)

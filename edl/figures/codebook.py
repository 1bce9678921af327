"""Stage 2 in pictures: how much of p(s) each code owns, which part, and where its goal was decoded."""

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from edl.envs.layouts import Layout
from edl.figures.curves import percent_axis
from edl.figures.maze import dot_area, plane, world_figure
from edl.figures.palette import palette
from edl.figures.skills import draw_goals
from edl.figures.style import ALARM, INK, MUTED, SIDE, plot_figure, stride, write_title


def usage_figure(usage: Float[np.ndarray, " k"], title: str = "Codebook usage") -> Figure:
    """The share of p(s) each code owns beside the even share, and the perplexity exp H(z) of the whole."""
    figure, (axes,) = plot_figure(max(SIDE, min(0.16 * len(usage), 9.0)), 2.9, right=0.42)
    axes.bar(np.arange(len(usage)), usage, color=palette(len(usage)), width=0.78, zorder=2)
    axes.axhline(1 / len(usage), color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    axes.annotate("even", (1, 1 / len(usage)), xycoords=("axes fraction", "data"), xytext=(3, 0),
                  textcoords="offset points", va="center", fontsize=8, color=MUTED)  # fmt: skip
    for code in np.flatnonzero(np.asarray(usage) <= 0):
        axes.annotate("dead", (code, 0), xytext=(0, 3), textcoords="offset points", rotation=90, ha="center",
                      va="bottom", fontsize=8, fontweight="bold", color=ALARM)  # fmt: skip
    axes.set(xlabel="code", ylabel="share of p(s)", xlim=(-0.6, len(usage) - 0.4))
    percent_axis(axes)
    if len(usage) <= 25:
        axes.set_xticks(np.arange(len(usage)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    write_title(axes, title, f"perplexity {perplexity(usage):.1f} of {len(usage)}")
    return figure


def assignment_figure(
    layout: Layout | None,
    samples: Float[np.ndarray, "n s"],
    assignments: Int[np.ndarray, " n"],
    goals: Float[np.ndarray, "k s"],
    decoded: Float[np.ndarray, "k s"] | None = None,
    title: str = "What each code stands for",
) -> Figure:
    """Explored states in the colour of argmax_z q(z|s), and the goals; arrows show where decoded goals were moved.

    A red cross is a goal that was decoded off the explored states.
    """
    off = np.zeros(len(goals), bool) if decoded is None else off_support(decoded, samples)
    note = f"{off.sum()} of {len(goals)} decoded off the explored states" if off.any() else f"{len(goals)} codes"
    figure, axes = world_figure(layout, title, note)
    every = stride(len(samples))
    colours = np.array(palette(len(goals)))[np.asarray(assignments[every])]
    dots = plane(samples[every])
    axes.scatter(*dots.T, s=dot_area(axes, len(dots)), c=colours, alpha=0.4, linewidths=0, zorder=2, rasterized=True)
    if decoded is not None:
        draw_moves(axes, plane(decoded), plane(goals), off)
    draw_goals(axes, plane(goals))
    return figure


def draw_moves(
    axes: Axes, decoded: Float[np.ndarray, "k 2"], goals: Float[np.ndarray, "k 2"], off: Bool[np.ndarray, " k"]
) -> None:
    """An arrow for every goal that visibly moved, and a cross where one was decoded off the explored states."""
    extent = max(np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim()))
    colours = palette(len(goals))
    for index in np.flatnonzero(np.linalg.norm(goals - decoded, axis=-1) > 0.02 * extent):
        arrow = {"arrowstyle": "-|>", "color": colours[index], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 4}
        axes.annotate("", goals[index], decoded[index], arrowprops=arrow, annotation_clip=False, zorder=7)
    if off.any():
        axes.scatter(*decoded[off].T, marker="x", s=34, color=ALARM, linewidth=1.8, zorder=8, clip_on=False)


def off_support(decoded: Float[np.ndarray, "k s"], samples: Float[np.ndarray, "n s"]) -> Bool[np.ndarray, " k"]:
    """Which decoded goals are farther from every explored state than explored states are from each other.

    The yardstick is three times the 99th percentile of the distance between an explored state and its nearest other.
    """
    samples = np.asarray(samples, float)[stride(len(samples))]
    probes = samples[stride(len(samples), 256)]
    spacing = np.partition(_distances(probes, samples), 1, axis=1)[:, 1] if len(samples) > 1 else np.zeros(1)
    return _distances(np.asarray(decoded, float), samples).min(axis=1) > 3 * np.quantile(spacing, 0.99) + 1e-6


def perplexity(usage: Float[np.ndarray, " k"]) -> float:
    """The exponential of H(z): how many codes would give this entropy if all were used alike."""
    share = np.asarray(usage, float)
    share = share[share > 0] / share.sum()
    return float(np.exp(-np.sum(share * np.log(share))))


def _distances(a: Float[np.ndarray, "n s"], b: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "n m"]:
    origin = b.mean(axis=0)  # far from zero, the squares below would cancel
    a, b = a - origin, b - origin
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.sqrt(np.maximum(squares, 0))

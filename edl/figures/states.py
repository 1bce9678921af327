"""Figures of stage 1: explored states, visits, coverage over steps, and p(s) relative to the uniform density."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from edl.envs.layouts import Layout
from edl.evaluate.coverage import bins_per_side
from edl.figures.curves import draw_band, percent_axis, steps_axis
from edl.figures.maze import MARGIN, dot_area, env_figure, plane
from edl.figures.style import ACCENT, INK, MUTED, SIDE, evenly_spaced, plot_figure, write_title

FOOTER = 0.48
VISITS = LinearSegmentedColormap.from_list("visits", ["#dcedf5", "#85c8de", "#2f86b6", "#1d4a86", "#131c4a"])
RATIO = LinearSegmentedColormap.from_list("ratio", ["#e3935a", "#f4cba8", "#faf8f4", "#6fb1d2", "#0c4a80"])


def states_figure(layout: Layout | None, samples: Float[np.ndarray, "n s"], title: str = "Explored states") -> Figure:
    """Samples of p(s) as dots; at most 8,000 evenly spaced samples are drawn."""
    figure, axes = env_figure(layout, title, f"{len(samples):,} states")
    dots = plane(samples[evenly_spaced(len(samples))])
    axes.scatter(*dots.T, s=dot_area(axes, len(dots)), color=ACCENT, alpha=0.5, linewidths=0, zorder=2, rasterized=True)
    return figure


def visits_figure(
    layout: Layout | None,
    paths: Float[np.ndarray, "e t s"],
    lengths: Int[np.ndarray, " e"] | None = None,
    title: str = "Visits",
) -> Figure:
    """Number of visits to each bin, on a log scale. Counts the first ``lengths[i] + 1`` states of path i, or all."""
    real = np.ones(paths.shape[:2], bool) if lengths is None else np.arange(paths.shape[1]) <= lengths[:, None]
    points = plane(paths[real])
    points = points[np.isfinite(points).all(axis=-1)]
    figure, axes = env_figure(layout, title, f"{len(points):,} states", footer=FOOTER)
    across, up = bin_edges(layout, points, 10 if layout is None else bins_per_side(layout))
    counts = np.histogram2d(*points.T, bins=(across, up))[0]
    scale = LogNorm(1, max(2.0, counts.max()))
    mesh = axes.pcolormesh(across, up, np.where(counts > 0, counts, np.nan).T, cmap=VISITS, norm=scale, zorder=2)
    draw_scale(figure, mesh, "visits per bin", lambda value, _: f"{value:,.0f}")
    return figure


def density_figure(
    layout: Layout | None, samples: Float[np.ndarray, "n s"], title: str = "Density relative to uniform"
) -> Figure:
    """log2 of p(s) over the uniform density of the maze, or of the bounding box of the samples without a maze."""
    points = plane(samples)
    across, up = bin_edges(layout, points, divisions(layout, len(points)))
    inside = inside_bins(layout, across, up)
    counts = np.where(inside, np.histogram2d(*points.T, bins=(across, up))[0], 0)
    share = counts / max(counts.sum(), 1)
    with np.errstate(divide="ignore"):
        ratio = np.log2(share * inside.sum())
    divergence = np.log(2) * float(np.sum(share[share > 0] * ratio[share > 0]))
    note = f"KL(p ‖ uniform) = {divergence:.2f} nats"
    figure, axes = env_figure(layout, title, note, footer=FOOTER)
    shown = np.where(inside, np.maximum(ratio, -3), np.nan)
    mesh = axes.pcolormesh(across, up, shown.T, cmap=RATIO, norm=Normalize(-3, 3), zorder=2)
    names = {-3: "≤ ⅛", -2: "¼", -1: "½", 0: "uniform", 1: "2x", 2: "4x", 3: "≥ 8x"}
    draw_scale(figure, mesh, "p(s) / uniform", lambda value, _: names.get(round(value), ""))
    return figure


def coverage_figure(
    steps: Float[np.ndarray, " t"] | Int[np.ndarray, " t"],
    coverage: Float[np.ndarray, "*seeds t"],
    title: str = "Coverage",
) -> Figure:
    """Share of the bins visited, over environment steps; mean and range over seeds."""
    figure, (axes,) = plot_figure(SIDE, 3.2, right=0.3)
    coverage = np.atleast_2d(coverage)
    draw_band(axes, np.asarray(steps), coverage)
    axes.set(xlim=(0, max(steps[-1], 1)), ylim=(0, 1.02), ylabel="share of bins visited")
    percent_axis(axes)
    steps_axis(axes)
    if steps[-1] > 110_000:
        axes.axvline(100_000, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    write_title(axes, title, f"ends at {100 * coverage[:, -1].mean():.1f}%")
    return figure


def divisions(layout: Layout | None, num_samples: int) -> int:
    """Bins per unit such that uniform samples give about 16 per bin; with fewer, the ratio would be noise."""
    cells = 36 if layout is None else len(layout.cells)
    return next((d for d in (10, 8, 5, 4, 3, 2) if num_samples >= 16 * cells * d**2), 1)


def bin_edges(
    layout: Layout | None, points: Float[np.ndarray, "n 2"], per_unit: int
) -> tuple[Float[np.ndarray, " i"], Float[np.ndarray, " j"]]:
    """Bin edges along x and y: ``per_unit`` bins per cell of the maze, or 6 * ``per_unit`` over the points."""
    if layout is not None:
        low, high = np.asarray(layout.bounds, float)
        across, up = (np.linspace(low[i], high[i], round((high[i] - low[i]) * per_unit) + 1) for i in (0, 1))
        return across, up
    low, high = points.min(axis=0) - 1e-6, points.max(axis=0) + 1e-6
    across, up = (np.linspace(low[i], high[i], 6 * per_unit + 1) for i in (0, 1))
    return across, up


def inside_bins(layout: Layout | None, across: Float[np.ndarray, " i"], up: Float[np.ndarray, " j"]) -> np.ndarray:
    """Whether bin [i, j] lies in a cell of the maze."""
    inside = np.ones((len(across) - 1, len(up) - 1), bool)
    if layout is None:
        return inside
    low, high = np.asarray(layout.bounds, float)
    grid = np.zeros(np.round(high - low).astype(int), bool)
    grid[tuple(np.floor(np.asarray(layout.cells) - low).astype(int).T)] = True
    per_unit = [inside.shape[i] // grid.shape[i] for i in (0, 1)]
    return grid.repeat(per_unit[0], axis=0).repeat(per_unit[1], axis=1)


def draw_scale(figure: Figure, mappable: ScalarMappable, label: str, formatter: Callable[[float, int], str]) -> None:
    """Draw a thin colour bar at the left of the footer."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes(((MARGIN + 0.12) / width, 0.3 / height, min(0.6, 3.3 / width), 0.1 / height))
    bar = figure.colorbar(mappable, cax=axes, orientation="horizontal", format=FuncFormatter(formatter))
    bar.outline.set_visible(False)
    bar.minorticks_off()
    axes.tick_params(labelsize=8, colors=MUTED, length=2)
    axes.text(1.03, 0.5, label, transform=axes.transAxes, fontsize=8.5, color=INK, va="center")

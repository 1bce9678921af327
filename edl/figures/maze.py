"""The background of every figure: the walls of a maze, or a plain plane for envs without walls."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from edl.envs.layouts import Layout
from edl.figures.style import INK, MUTED, OUTSIDE, SIDE, TITLE_HEIGHT, new_figure, style_axes, write_title

MARGIN = 0.12
"""Inches around the maze, so that the outer walls have their full width."""
NUMBERS = (0.22, 0.16)
"""Inches left of and below a maze for its coordinates."""


def env_figure(layout: Layout | None, title: str, note: str, footer: float = 0.0) -> tuple[Figure, Axes]:
    """A titled figure in the shape of the maze, or of a plane; ``footer`` inches at the bottom stay empty."""
    width, height = env_size(layout)
    numbers = np.array(NUMBERS if layout is not None else (0.0, 0.0))
    # A narrow maze is centred in a figure that is wide enough for the title.
    whole = np.array([max(width, SIDE) + 2 * MARGIN, height + 2 * MARGIN + TITLE_HEIGHT + footer]) + numbers
    figure = new_figure(*whole)
    # A plane needs room for ticks and labels; a maze has small numbers outside of its size.
    indent = np.array([0.0, 0.0] if layout is not None else [0.62, 0.42])
    corner = np.array([(whole[0] - numbers[0] - width) / 2, MARGIN + footer]) + indent + numbers
    axes = figure.add_axes((*(corner / whole), *((np.array([width, height]) - indent) / whole)))
    if layout is None:
        draw_plane(axes)
    else:
        draw_maze(axes, layout)
        draw_coordinates(axes)
    left = (MARGIN + indent[0]) / whole[0]
    write_title(axes, title, note, left=left, right=1 - MARGIN / whole[0])
    return figure, axes


def env_size(layout: Layout | None) -> tuple[float, float]:
    """Width and height of the drawn env in inches; long, low mazes are drawn longer."""
    if layout is None:
        return SIDE, 0.85 * SIDE
    extent = np.ptp(np.asarray(layout.bounds), axis=0)
    side = 1.5 * SIDE if extent[0] > 3 * extent[1] else SIDE
    width, height = side * extent / extent.max()
    return float(width), float(height)


def draw_maze(axes: Axes, layout: Layout, starts: bool = True) -> None:
    """Draw black walls, a shaded outside and a black dot at each start; equal aspect and no ticks."""
    (left, low), (right, high) = np.asarray(layout.bounds)
    axes.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    axes.set_axis_off()
    outside = outside_cells(layout)
    squares = outside[:, None] + np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    axes.add_collection(PolyCollection(list(squares), facecolor=OUTSIDE, edgecolor=OUTSIDE, linewidth=0.4, zorder=0))
    # Projecting caps close the corners; without clipping, outer walls are as thick as inner ones.
    walls = LineCollection(list(layout.walls), colors=INK, linewidths=wall_width(axes), capstyle="projecting")
    walls.set(zorder=6, clip_on=False)
    axes.add_collection(walls, autolim=False)
    if starts:
        draw_starts(axes, np.asarray(layout.starts))


def draw_coordinates(axes: Axes) -> None:
    """Write x and y along the lower and the left side of a maze: regions and goals are given in these coordinates."""
    axes.set_axis_on()
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
    axes.tick_params(colors=MUTED, labelsize=7, length=0, pad=3)


def draw_plane(axes: Axes) -> None:
    """Axes for an env without walls: the first two features, with ticks."""
    style_axes(axes, grid="both")
    axes.set(xlabel="feature 0", ylabel="feature 1")


def draw_starts(axes: Axes, starts: Float[np.ndarray, "m 2"]) -> None:
    """Draw a black dot at each start position."""
    size = np.clip(0.22 * points_per_unit(axes), 3, 7) if axes.get_aspect() == 1 else 6
    axes.scatter(*starts.T, s=size**2, color=INK, edgecolor="white", linewidth=0.8, zorder=10, clip_on=False)


def outside_cells(layout: Layout) -> Float[np.ndarray, "c 2"]:
    """Centres of the unit cells within the bounds that are not part of the maze."""
    low, high = np.asarray(layout.bounds)
    columns, rows = (low[i] + 0.5 + np.arange(round(high[i] - low[i])) for i in (0, 1))
    grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
    taken = {tuple(cell) for cell in np.floor(np.asarray(layout.cells) - low).astype(int)}
    keep = [tuple(cell) not in taken for cell in np.floor(grid - low).astype(int)]
    return grid[np.array(keep, dtype=bool)]


def points_per_unit(axes: Axes) -> float:
    """Printed points per unit of the maze."""
    return float(paper_size(axes)[0] / np.ptp(axes.get_xlim()))


def paper_size(axes: Axes) -> Float[np.ndarray, " 2"]:
    """Width and height of the axes in points."""
    return 72 / axes.figure.dpi * np.array([axes.bbox.width, axes.bbox.height])


def dot_area(axes: Axes, num_dots: int) -> float:
    """Area of a dot in square points such that ``num_dots`` of them cover about a third of the axes."""
    return float(np.clip(0.35 * np.prod(paper_size(axes)) / max(num_dots, 1), 3, 40))


def wall_width(axes: Axes) -> float:
    """Line width of walls in points: thick enough to be sharp, thin enough to keep the cells of a large maze open."""
    return float(np.clip(0.055 * points_per_unit(axes), 0.8, 2.4))


def plane(points: Float[np.ndarray, "*n s"]) -> Float[np.ndarray, "*n 2"]:
    """The first two features; an env with one feature is drawn along a line."""
    points = np.asarray(points, dtype=float)
    if points.shape[-1] == 1:
        points = np.concatenate([points, np.zeros_like(points)], axis=-1)
    return points[..., :2]

"""Mazes side by side, in the style of the paper: sharp walls, one colour per skill, a black dot at the start.

Walls and text are vector graphics. Rollouts and landscapes have tens of thousands of points and are rasterised, also in
the SVG, to keep the file small.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from edl.envs.layouts import Layout
from edl.figures.maze import draw_maze, plane, points_per_unit
from edl.figures.skills import draw_goals, draw_trajectories
from edl.figures.style import INK, MUTED, new_figure

EDGE, GAP, HEAD, LABEL = 0.15, 0.22, 0.52, 0.3
"""Inches around the figure, between panels, above each panel for its title, and left of a row for its name."""
LANDSCAPE = LinearSegmentedColormap.from_list("landscape", ["#f7f9fb", "#c9dfec", "#79b3d3", "#2c77a8", "#123a63"])
STAR = "#ffd21f"
ONE_COLOUR = "#7d8896"
"""For rollouts of untrained skills, which all look the same."""


class Panel(NamedTuple):
    """One maze and its contents; parts that are None are not drawn.

    ``colours`` has one colour per skill. ``field`` has a value for each point of a regular grid, NaN outside the maze;
    ``best`` is its maximum. With a field, rollouts are grey.
    """

    layout: Layout
    title: str = ""
    note: str = ""
    paths: Float[np.ndarray, "k n t 2"] | None = None
    goals: Float[np.ndarray, "k 2"] | None = None
    colours: Sequence[str] | None = None
    targets: Float[np.ndarray, "m 2"] | None = None
    field: Float[np.ndarray, "i j"] | None = None
    best: Float[np.ndarray, " 2"] | None = None


def panels_figure(rows: Sequence[Sequence[Panel | None]], names: Sequence[str] = (), side: float = 3.4) -> Figure:
    """A table of panels. ``side`` is the longer side of a panel in inches; ``names`` label the rows."""
    first = next(panel for row in rows for panel in row if panel is not None)
    extent = np.ptp(np.asarray(first.layout.bounds), axis=0)
    width, height = side * extent / extent.max()
    width = max(width, 1.0)
    left = EDGE + (LABEL if names else 0.0)
    head = HEAD if any(panel is not None and panel.title for row in rows for panel in row) else GAP
    columns = max(map(len, rows))
    whole = (left + columns * (width + GAP) - GAP + EDGE, EDGE + len(rows) * (height + head))
    figure = new_figure(*whole)
    for i, row in enumerate(rows):
        low = whole[1] - (i + 1) * (height + head)
        for j, panel in enumerate(row):
            if panel is not None:
                box = (left + j * (width + GAP), low, width, height)
                axes = figure.add_axes(tuple(np.array(box) / np.array([*whole, *whole])))
                draw_panel(axes, panel)
        if names:
            figure.text((left - 0.1) / whole[0], (low + height / 2) / whole[1], names[i], rotation=90, ha="right",
                        va="center", fontsize=11, fontweight="bold", color=INK)  # fmt: skip
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw the walls, then the field, rollouts, goals and text of a panel."""
    draw_maze(axes, panel.layout)
    if panel.field is not None:
        draw_field(axes, panel)
    if panel.paths is not None and panel.field is None:
        draw_trajectories(axes, panel.paths, panel.colours, rasterized=True)
    if panel.goals is not None:
        draw_goals(axes, plane(panel.goals))
    if panel.targets is not None:
        axes.scatter(*panel.targets.T, marker="P", s=60, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=9)
    height = axes.get_position().height * axes.figure.get_figure(root=True).get_figheight()
    above = 0.06 / height
    words = {"transform": axes.transAxes, "color": INK, "ha": "left", "va": "bottom", "parse_math": False}
    # The title stays above the note's line also without a note: numbers of goals at the upper wall need the room.
    axes.text(0, 1 + above + 0.15 / height, panel.title, fontsize=10, fontweight="bold", **words)
    axes.text(0, 1 + above, panel.note, fontsize=8, **{**words, "color": MUTED})


def draw_field(axes: Axes, panel: Panel) -> None:
    """Draw a landscape in blue, grey rollouts over it, and a yellow star at its maximum."""
    (left, low), (right, high) = np.asarray(panel.layout.bounds)
    assert panel.field is not None
    image = axes.imshow(panel.field.T, origin="lower", extent=(left, right, low, high), cmap=LANDSCAPE, zorder=1,
                        interpolation="nearest", aspect="equal")  # fmt: skip
    image.set_clim(np.nanmin(panel.field), np.nanmax(panel.field) + 1e-9)
    axes.set(xlim=(left, right), ylim=(low, high))
    if panel.paths is not None:
        lines = list(panel.paths.reshape(-1, *panel.paths.shape[-2:]))
        grey = LineCollection(lines, colors="#4a525c", linewidths=0.5, alpha=0.55, zorder=3, rasterized=True)
        axes.add_collection(grey)
    if panel.best is not None:
        size = float(np.clip(1.1 * points_per_unit(axes), 7, 16))
        axes.scatter(*panel.best, marker="*", s=size**2, color=STAR, edgecolor=INK, linewidth=0.7, zorder=9,
                     clip_on=False)  # fmt: skip


def blend(first: str, second: str, share: float = 0.5) -> str:
    """A mixture of two colours, for a skill between two skills."""
    a, b = (np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) for colour in (first, second))
    return "#" + "".join(f"{round(value):02x}" for value in (1 - share) * a + share * b)

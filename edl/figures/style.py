"""The style of all figures: colours, sizes and axes.

Nothing here changes matplotlib's global state (``pyplot``, ``rcParams``): styles are applied to single objects, so
figures can be drawn in any thread and the user's own settings are kept.
"""

import io
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patheffects import Stroke, withStroke
from matplotlib.text import Text

INK = "#16191d"
MUTED = "#626b77"
GRID = "#e4e7eb"
OUTSIDE = "#eceff2"
ACCENT = "#2076ae"
ALARM = "#d01c2a"

SIDE = 5.2
"""Inches of the longer side of a picture of an env."""
TITLE_HEIGHT = 0.3
DPI = 160


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure; the size is in inches."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def plot_figure(width: float, height: float, columns: int = 1, right: float = 0.18) -> tuple[Figure, list[Axes]]:
    """A figure with a row of plots; sizes are in inches, ``right`` is the margin to the right of each plot."""
    # Fixed positions: matplotlib's constrained layout takes longer than drawing the plots.
    left, low, top = 0.74, 0.5, 0.36
    figure = new_figure(columns * width, height)
    size = ((width - left - right) / (columns * width), (height - low - top) / height)
    panels = [figure.add_axes(((i + left / width) / columns, low / height, *size)) for i in range(columns)]
    for axes in panels:
        style_axes(axes)
    return figure, panels


def to_png(figure: Figure, dpi: int = DPI) -> bytes:
    """The figure as a PNG; the same figure always gives the same bytes."""
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return buffer.getvalue()


def to_svg(figure: Figure) -> bytes:
    canvas = figure.canvas
    try:
        with io.BytesIO() as buffer:
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
            return buffer.getvalue()
    finally:
        figure.set_canvas(canvas)


def to_pdf(figure: Figure) -> bytes:
    canvas = figure.canvas
    try:
        with io.BytesIO() as buffer:
            FigureCanvasPdf(figure).print_pdf(buffer, metadata={"CreationDate": None})
            return buffer.getvalue()
    finally:
        figure.set_canvas(canvas)


def write_title(axes: Axes, text: str, note: str = "", left: float | None = None, right: float | None = None) -> None:
    """Draw a bold title above the axes at the left and a grey note at the right. A title that is too long is cut.

    ``left`` and ``right`` are fractions of the figure's width, by default the sides of the axes.
    """
    box, figure = axes.get_position(), axes.figure
    left, right = box.x0 if left is None else left, box.x1 if right is None else right
    # 4.8 and 6.8 points are the average widths of a letter; measuring the text would require drawing the figure.
    room = 72 * (right - left) * figure.get_figure(root=True).get_figwidth() - 4.8 * len(note) - 10
    letters = max(int(room / 6.8), 8)
    text = text if len(text) <= letters else text[: letters - 1] + "…"
    height = box.y1 + 7 / 72 / figure.get_figure(root=True).get_figheight()
    # A maze's file name may contain a dollar sign, which must not start a formula.
    common = {"va": "bottom", "parse_math": False}
    figure.text(left, height, text, fontsize=11, fontweight="bold", color=INK, ha="left", **common)
    figure.text(right, height, note, fontsize=9, color=MUTED, ha="right", **common)


def style_axes(axes: Axes, grid: Literal["both", "x", "y"] = "y") -> None:
    """Keep two thin spines, a pale grid and small ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b6bdc6")
    axes.tick_params(colors=MUTED, labelsize=8.5, length=3, width=0.8)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(fontsize=9.5, color=INK)


def evenly_spaced(num_points: int, most: int = 8000) -> slice:
    """A slice that selects at most ``most`` evenly spaced points: more dots take time and hide each other."""
    return slice(None, None, max(1, -(-num_points // most)))


def text_outline(width: float = 3.2) -> list[Stroke]:
    """A white outline that keeps text readable over lines."""
    return [withStroke(linewidth=width, foreground="white")]


def write_number(axes: Axes, number: int, at: tuple[float, float], colour: str, size: float) -> Text:
    """Draw a skill's number in its colour at the upper right of a point, or on the other side near a border."""
    x, y = axes.transLimits.transform(at)
    right, up = (x < 0.96), (y < 0.96)
    return axes.annotate(
        str(number), at, xytext=(0.55 * size * (1 if right else -1), 0.45 * size * (1 if up else -1)),
        textcoords="offset points", annotation_clip=False, fontsize=size, fontweight="bold", color=colour,
        ha="left" if right else "right", va="bottom" if up else "top", zorder=9, path_effects=text_outline(),
    )  # fmt: skip

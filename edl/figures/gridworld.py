"""Values on the tiles of a gridworld, one column of panels per skill."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from edl.figures.style import ALARM, INK, MUTED, new_figure

SIDE, EDGE, HEAD, LEFT, BAR = 3.1, 0.15, 0.4, 0.15, 0.75
"""Inches: side of a panel, gap, title above a panel, left margin, and room for the colour bar."""
DENSITY = LinearSegmentedColormap.from_list("density", ["#ffffff", "#b9d8ea", "#4c9bc6", "#14517f"])
REWARD = LinearSegmentedColormap.from_list("reward", ["#e3935a", "#ffffff", "#2e8b57"])


def gridworld_figure(visits: Float[np.ndarray, "k h w"], reward: Float[np.ndarray, "k h w"]) -> Figure:
    """rho(s|z) above, r(s, z) below. A cross marks a reward of minus infinity, a red frame the start."""
    count = len(visits)
    whole = (LEFT + count * (SIDE + EDGE) + BAR, 2 * (SIDE + HEAD) + EDGE)
    figure = new_figure(*whole)
    top = float(np.max(reward[np.isfinite(reward)]))
    for row, (fields, word) in enumerate(((visits, "$\\rho$(s | z{})"), (np.maximum(reward, -top), "r(s, z{})"))):
        style = {"cmap": DENSITY, "vmin": 0.0} if row == 0 else {"cmap": REWARD, "norm": TwoSlopeNorm(0, -top, top)}
        low = whole[1] - (row + 1) * (SIDE + HEAD)
        for skill, field in enumerate(fields):
            box = np.array([LEFT + skill * (SIDE + EDGE), low, SIDE, SIDE]) / np.array([*whole, *whole])
            axes = figure.add_axes(tuple(box))
            image = axes.imshow(field, origin="lower", **style)
            draw_tiles(axes, field.shape)
            axes.set_title(word.format("₀₁₂₃₄₅₆₇₈₉"[skill % 10]), fontsize=12, color=INK, pad=5)
            if row == 1:
                crosses = np.argwhere(np.isneginf(reward[skill]))[:, ::-1]
                axes.scatter(*crosses.T, marker="x", s=28, color=MUTED, linewidth=1.2)
        bar = np.array([LEFT + count * (SIDE + EDGE), low + 0.2, 0.12, SIDE - 0.4]) / np.array([*whole, *whole])
        scale = figure.colorbar(image, cax=figure.add_axes(tuple(bar)))
        scale.outline.set_visible(False)
        scale.ax.tick_params(labelsize=8, colors=MUTED, length=2)
        if row == 1:
            scale.set_ticks([-top, 0.0, top], labels=[f"≤ {-top:.2f}", "0", f"{top:.2f}"])
    return figure


def draw_tiles(axes: Axes, shape: tuple[int, int]) -> None:
    """Draw thin lines between the tiles and a red frame around the start."""
    height, width = shape
    axes.set_xticks(np.arange(width + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(height + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#d5dae0", linewidth=0.7)
    axes.tick_params(which="both", length=0, labelleft=False, labelbottom=False)
    axes.spines[:].set_color(INK)
    start = (width // 2 - 0.5, height // 2 - 0.5)
    axes.add_patch(Rectangle(start, 1, 1, fill=False, edgecolor=ALARM, linewidth=2.4, zorder=5))

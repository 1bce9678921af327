"""Pictures of a robot or of an env that renders: one row per skill, from the start of an episode to its end."""

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from edl.figures.palette import palette

INCHES = 1.3
"""Width of one picture."""


def filmstrip_figure(frames: UInt8[np.ndarray, "k f h w 3"], times: list[int]) -> Figure:
    """Row k has the pictures of skill k after ``times`` steps."""
    rows, columns, height, width, _ = frames.shape
    figure = Figure(figsize=(INCHES * columns + 0.4, INCHES * rows * height / width + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for row, colour in enumerate(palette(rows)):
        for column, time in enumerate(times):
            panel = axes[row, column]
            panel.imshow(frames[row, column])
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set(color=colour, linewidth=1.5)
            if row == 0:
                panel.set_title(f"step {time}", fontsize=7)
        axes[row, 0].set_ylabel(str(row), rotation=0, labelpad=8, fontsize=8, color=colour)
    return figure


def message_figure(text: str) -> Figure:
    """A text in the place of a figure that could not be drawn."""
    figure = Figure(figsize=(6, 0.8))
    figure.text(0.02, 0.5, text, va="center", fontsize=8)
    return figure

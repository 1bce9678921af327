"""The choice of axes for figures of envs that are not mazes: two features, or the angle of a cosine and a sine."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from edl.config import ConfigError, check

PART = re.compile(r"\s*(?:(\d+)|angle\(\s*(\d+)\s*,\s*(\d+)\s*\))\s*(?:,|$)")
"""A feature, or angle(cosine, sine)."""
EXAMPLES = "Name two features, e.g. '0,2' or 'angle(0,1),2'."


class PlotAxis(NamedTuple):
    """One axis of a figure: a feature, or with ``sine`` the angle of which ``feature`` is the cosine."""

    feature: int
    sine: int | None = None

    @property
    def label(self) -> str:
        if self.sine is None:
            return f"feature {self.feature}"
        return f"angle of features {self.feature} and {self.sine} (degrees)"

    def __call__(self, states: Float[np.ndarray, "*n s"]) -> Float[np.ndarray, "*n"]:
        """The coordinate of states. Angles are in degrees, from -180 to 180."""
        if self.sine is None:
            return states[..., self.feature]
        return np.degrees(np.arctan2(states[..., self.sine], states[..., self.feature]))


def parse_axes(text: str, num_features: int) -> tuple[PlotAxis, PlotAxis]:
    """Two axes from text such as "0,2" or "angle(0,1),2"."""
    found, end = [], 0
    while end < len(text):
        part = PART.match(text, end)
        if part is None:
            raise ConfigError(f"dims must be features or angles (got {text!r}). {EXAMPLES}")
        feature, cosine, sine = part.groups()
        found.append(PlotAxis(int(feature)) if cosine is None else PlotAxis(int(cosine), int(sine)))
        end = part.end()
    check(len(found) == 2, f"dims must name two axes (got {len(found)} in {text!r}). {EXAMPLES}")
    highest = max(max(axis.feature, axis.sine or 0) for axis in found)
    check(highest < num_features, f"dims must be below {num_features}, the number of features (got {highest}).")
    return found[0], found[1]


def project(states: Float[np.ndarray, "*n s"], axes: Sequence[PlotAxis] | None) -> Float[np.ndarray, "*n d"]:
    """The coordinates of states on the chosen axes; the states themselves without a choice."""
    states = np.asarray(states, float)
    return states if axes is None else np.stack([axis(states) for axis in axes], axis=-1)


def show_axes(figure: Figure, axes: Sequence[PlotAxis] | None) -> None:
    """Name the chosen axes in a figure of the plane, and mark right angles on an axis of degrees."""
    for each in figure.axes:
        if axes is None or each.get_xlabel() != "feature 0":
            continue
        each.set(xlabel=axes[0].label, ylabel=axes[1].label)
        for axis, ticks in ((axes[0], each.set_xticks), (axes[1], each.set_yticks)):
            if axis.sine is not None:
                ticks(np.arange(-180, 181, 90))

"""One colour per skill; skill i has the same colour for any number of skills.

The first ten maximise the smallest OKLab distance between any two of them as seen with normal vision, deuteranopia and
protanopia (the minimum is 0.11; matplotlib's default cycle has 0.007). Each further colour is the one of the sRGB cube
that is farthest from all colours before it.
"""

import functools

import numpy as np
from jaxtyping import Float

BASE = (
    *("#2076ae", "#ec6a04", "#0bb588", "#c71c65", "#af6eff"),
    *("#dcb800", "#052aaf", "#2e5b00", "#82c0ff", "#6a1b61"),
)

# sRGB to cone response and on to OKLab: B. Ottosson, "A perceptual color space for image processing", 2020.
_CONES = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
_OKLAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
# Deuteranopia and protanopia in linear sRGB: Machado, Oliveira and Fernandes, 2009, severity 1.
_BLINDNESS = (
    np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
)


def palette(num_skills: int) -> list[str]:
    """The colours of skills 0 .. num_skills - 1 as ``#rrggbb``; they repeat only after several hundred."""
    colours = list(BASE) if num_skills <= len(BASE) else _extended(min(num_skills, len(BASE) + len(_candidates())))
    return [colours[i % len(colours)] for i in range(num_skills)]


def views(rgb: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "3 n 3"]:
    """OKLab coordinates as seen with normal vision, deuteranopia and protanopia."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = [linear, *(np.clip(linear @ matrix.T, 0, 1) for matrix in _BLINDNESS)]
    return np.stack([np.cbrt(x @ _CONES.T) @ _OKLAB.T for x in seen])


def to_rgb(colours: list[str] | tuple[str, ...]) -> Float[np.ndarray, "n 3"]:
    """Convert ``#rrggbb`` to numbers in [0, 1]."""
    return np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in colours])


@functools.cache
def _extended(num_colours: int) -> list[str]:
    """Farthest-point sampling: each new colour is the candidate farthest from all colours chosen before."""
    candidates, chosen = views(_candidates()), views(to_rgb(BASE))
    gaps = np.linalg.norm(candidates[:, :, None] - chosen[:, None], axis=-1)
    # Normal vision has a higher weight: most readers have it, and no dichromat can distinguish fifty colours.
    weights = np.array([1.0, 1.6, 1.6])[:, None]
    nearest = np.min(weights * gaps.min(axis=-1), axis=0)
    colours = list(BASE)
    while len(colours) < num_colours:
        index = int(np.argmax(nearest))
        colours.append("#" + "".join(f"{round(255 * value):02x}" for value in _candidates()[index]))
        gaps = np.linalg.norm(candidates - candidates[:, index : index + 1], axis=-1)
        nearest = np.minimum(nearest, np.min(weights * gaps, axis=0))
    return colours


@functools.cache
def _candidates() -> Float[np.ndarray, "n 3"]:
    """Colours of the sRGB cube that are neither grey nor too pale on white."""
    levels = np.linspace(0, 1, 12)
    rgb = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    lightness, *opponents = views(rgb)[0].T
    chroma = np.hypot(*opponents)
    return rgb[(lightness > 0.36) & (lightness < 0.82) & (chroma > 0.08) & (chroma < 0.25)]

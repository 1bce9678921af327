"""Synthetic runs with straight paths to goals in a maze, and access to the pixels of a figure."""

import io
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from edl.envs.layouts import Layout, load
from edl.figures.palette import to_rgb
from edl.figures.style import to_png


class Run(NamedTuple):
    layout: Layout
    paths: np.ndarray
    goals: np.ndarray
    samples: np.ndarray
    assignments: np.ndarray
    usage: np.ndarray


def synthetic_run(name: str = "square", num_skills: int = 10, rollouts: int = 4, seed: int = 0) -> Run:
    """Paths go straight from the start to goals in different cells, through walls."""
    rng = np.random.default_rng(seed)
    layout = load(name)
    samples = layout.cells[rng.integers(len(layout.cells), size=2000)] + rng.uniform(-0.5, 0.5, (2000, 2))
    goals = layout.cells[rng.permutation(len(layout.cells))[:num_skills]]
    times = np.linspace(0, 1, 21)[:, None]
    paths = times * goals[:, None, None] + rng.normal(0, 0.05, (num_skills, rollouts, 21, 2))
    assignments = np.argmin(np.linalg.norm(samples[:, None] - goals, axis=-1), axis=1)
    usage = np.bincount(assignments, minlength=num_skills) / len(samples)
    return Run(layout, paths, goals, samples, assignments, usage)


class Pixels:
    """The pixels of a figure, indexed by coordinates of its first axes."""

    def __init__(self, figure):
        with Image.open(io.BytesIO(to_png(figure))) as image:
            self.values = np.asarray(image.convert("RGB"), dtype=int)
        self.axes = figure.axes[0]

    def at(self, x: float, y: float) -> np.ndarray:
        column, row = self.axes.transData.transform((x, y))
        return self.values[int(self.values.shape[0] - row), int(column)]

    def variety(self) -> int:
        return len(np.unique(self.values @ np.array([65536, 256, 1])))

    def count(self, colour: str, tolerance: int = 6) -> int:
        rgb = np.round(255 * to_rgb([colour])[0])
        return int(np.sum(np.all(np.abs(self.values - rgb) <= tolerance, axis=-1)))


@pytest.fixture
def make_run():
    return synthetic_run


@pytest.fixture
def run() -> Run:
    return synthetic_run()


@pytest.fixture
def pixels():
    return Pixels

import numpy as np
import pytest

from edl.envs.layouts import NAMES, load
from edl.figures.states import (
    bin_edges,
    coverage_figure,
    density_figure,
    divisions,
    inside_bins,
    states_figure,
    visits_figure,
)


def test_explored_states_are_drawn_at_their_coordinates(run, pixels):
    there = np.tile([[4.0, -1.0]], (50, 1))
    picture = pixels(states_figure(run.layout, there))
    assert picture.at(4.0, -1.0).min() < 120
    assert picture.at(0.0, -3.0).min() > 250


def test_large_samples_are_thinned(run):
    figure = states_figure(run.layout, np.tile(run.samples, (40, 1)))
    assert len(figure.axes[0].collections[-1].get_offsets()) <= 8000
    assert figure.texts[1].get_text() == "80,000 states"


def test_bins_with_more_visits_are_darker(run, pixels):
    paths = np.full((10, 20, 2), np.nan)
    paths[:, :, :] = [0.02, -2.02]
    paths[0, 0] = [4.02, -1.02]
    picture = pixels(visits_figure(run.layout, paths))
    often, once, never = picture.at(0.02, -2.02), picture.at(4.02, -1.02), picture.at(2.0, -1.0)
    assert often.sum() < once.sum() < never.sum() == 3 * 255


def test_unplayed_steps_are_not_visits(run):
    paths = np.zeros((3, 5, 2))
    figure = visits_figure(run.layout, paths, np.array([4, 1, 0]))
    assert figure.texts[0].get_text() == "Visits"
    assert figure.texts[1].get_text() == f"{5 + 2 + 1} states"


@pytest.mark.parametrize("name", NAMES)
def test_inside_bins_are_the_bins_of_the_cells(name):
    layout = load(name)
    across, up = bin_edges(layout, layout.cells, 4)
    inside = inside_bins(layout, across, up)
    assert inside.sum() == 16 * len(layout.cells)
    counts = np.histogram2d(*layout.cells.T + 0.01, bins=(across, up))[0]
    assert counts[inside].sum() == len(layout.cells)


def test_divergence_is_small_for_uniform_samples_and_maximal_for_a_point(run):
    def divergence(samples: np.ndarray) -> float:
        return float(density_figure(run.layout, samples).texts[1].get_text().split("=")[1].split()[0])

    rng = np.random.default_rng(0)
    uniform = run.layout.cells[rng.integers(len(run.layout.cells), size=50_000)] + rng.uniform(-0.5, 0.5, (50_000, 2))
    assert divergence(uniform) < 0.05
    bins = len(run.layout.cells) * divisions(run.layout, 50_000) ** 2
    assert divergence(0 * uniform + 0.01) == pytest.approx(np.log(bins), abs=0.01)


def test_coverage_shows_the_mean_and_the_range_of_the_seeds():
    steps = np.array([0, 100_000, 200_000])
    figure = coverage_figure(steps, np.array([[0.0, 0.5, 0.8], [0.0, 0.7, 1.0]]))
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [0, 0.6, 0.9])
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert {0.5, 0.7} <= set(np.round(band[band[:, 0] == 100_000, 1], 6))
    assert figure.texts[1].get_text() == "ends at 90.0%"


def test_coverage_of_one_seed():
    assert not coverage_figure(np.array([0.0, 10.0]), np.array([0.1, 0.2])).axes[0].collections


@pytest.mark.parametrize("draw", [states_figure, density_figure])
def test_envs_without_walls(draw, pixels):
    samples = np.random.default_rng(0).normal(size=(500, 4))
    assert pixels(draw(None, samples)).variety() > 20


def test_visits_without_walls(pixels):
    paths = np.random.default_rng(0).normal(size=(20, 30, 3))
    assert pixels(visits_figure(None, paths)).variety() > 20

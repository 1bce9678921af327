"""Distances between sets of skills against values by hand, SciPy, and the axioms of a metric."""

import numpy as np
import pytest
from scipy.spatial.distance import directed_hausdorff
from scipy.stats import wasserstein_distance

from edl.envs import layouts
from edl.evaluate.distances import hausdorff, transport
from edl.evaluate.geodesic import Geodesic

LINE = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])


def test_by_hand():
    moved = LINE + np.array([0.0, 3.0])
    assert transport(LINE, moved) == 3.0
    assert hausdorff(LINE, moved) == 3.0
    # The point at 0 goes to 10, the others stay: one third of ten. The loneliest point is the one at 10, 8 from 2.
    far = np.array([[10.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    assert transport(LINE, far) == pytest.approx(10 / 3)
    assert hausdorff(LINE, far) == 8.0


def test_the_order_of_skills_means_nothing():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(10, 2)), generator.normal(size=(10, 2))
    shuffled = generator.permutation(y)
    assert transport(x, shuffled) == pytest.approx(transport(x, y))
    assert hausdorff(x, shuffled) == hausdorff(x, y)
    assert transport(y, shuffled) == 0.0


def test_against_scipy():
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(10, 2)), generator.normal(size=(10, 2))
    assert hausdorff(x, y) == pytest.approx(max(directed_hausdorff(x, y)[0], directed_hausdorff(y, x)[0]))
    # On a line SciPy knows optimal transport, also between sets of different sizes.
    for count in (4, 6):
        a, b = generator.normal(size=(count, 1)), generator.normal(size=(6, 1))
        assert transport(a, b) == pytest.approx(wasserstein_distance(a[:, 0], b[:, 0]))


def test_metric():
    generator = np.random.default_rng(2)
    x, y, z = generator.normal(size=(3, 5, 2))
    for distance in (hausdorff, transport):
        assert distance(x, x) == 0.0
        assert distance(x, y) == pytest.approx(distance(y, x))
        assert distance(x, z) <= distance(x, y) + distance(y, z) + 1e-12


def test_in_walking_distance():
    """The ends of two branches of the tree: near as the crow flies, far on foot."""
    layout = layouts.load("tree")
    walking = Geodesic.from_layout(layout).distance
    x, y = layout.cells[-1:], layout.cells[-2:-1]
    assert transport(x, y, walking) > 1.5 * transport(x, y)

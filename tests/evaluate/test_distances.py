"""Distances to goals and targets by hand; distances between sets of skills by hand, by SciPy and by the axioms."""

import numpy as np
import pytest
from scipy.spatial.distance import directed_hausdorff
from scipy.stats import wasserstein_distance

from edl.envs import layouts
from edl.evaluate.distances import (
    best_skill_distance,
    distances_to_goals,
    goal_distance,
    goal_success,
    hausdorff,
    success_per_skill,
    transport,
    worst_skill_success,
    zero_shot_distance,
)
from edl.evaluate.geodesic import Geodesic

LAST = np.array([[[0.0, 0.5], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.6]]])
GOALS = np.array([[0.0, 0.0], [1.0, 1.0]])
LINE = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])


def straight(x, y):
    return np.linalg.norm(x - y, axis=-1)


def test_goal_distance_by_hand():
    to_goals = distances_to_goals(LAST, GOALS, straight)
    np.testing.assert_allclose(to_goals, [[0.5, 5.0], [0.0, 0.6]])
    assert goal_distance(to_goals) == pytest.approx((0.5 + 5.0 + 0.0 + 0.6) / 4)


def test_goal_success_includes_its_border():
    to_goals = distances_to_goals(LAST, GOALS, straight)
    assert goal_success(to_goals) == 0.5
    assert goal_success(to_goals, within=0.49) == 0.25


def test_the_worst_skill_decides_whatever_the_mean():
    to_goals = np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.9, 0.9], [0.0, 0.0, 0.0, 0.9]])
    np.testing.assert_array_equal(success_per_skill(to_goals), [1.0, 0.5, 0.75])
    assert worst_skill_success(to_goals) == 0.5
    assert goal_success(to_goals) == 0.75


def test_behind_a_thin_wall_is_near_by_straight_distance_and_far_by_walking_distance():
    """Two cells side by side with a wall between them, open below: the way round the end of the wall has 0.9 each."""
    layout = layouts.parse("+-+-+\n|S| |\n+ + +\n|   |\n+-+-+\n")
    last, goals = np.array([[[0.49, 0.4], [0.51, 0.4]]]), np.array([[0.51, 0.4]])
    by_hand = 2 * np.hypot(0.01, 0.9)
    straight_to_goals = distances_to_goals(last, goals, straight)
    walked = distances_to_goals(last, goals, Geodesic.from_layout(layout).paired)
    np.testing.assert_allclose(straight_to_goals, [[0.02, 0.0]], atol=1e-12)
    np.testing.assert_allclose(walked, [[by_hand, 0.0]], atol=1e-12)
    assert (goal_success(straight_to_goals), goal_success(walked)) == (1.0, 0.5)


def test_best_skill_distance_uses_the_best_mean_and_not_the_best_rollout():
    # First target: skill 0 ends at distance 0 or 6 (mean 3), skill 1 at 2 and 2. Second target: 1 and 5 (mean 3), 4, 4.
    distances = np.array([[[0.0, 1.0], [6.0, 5.0]], [[2.0, 4.0], [2.0, 4.0]]])
    assert best_skill_distance(distances) == pytest.approx((2.0 + 3.0) / 2)


def test_zero_shot_distance_is_at_best_the_best_skill_distance():
    # Two skills, two rollouts each, three targets.
    distances = np.array([[[1.0, 4.0, 2.0], [1.0, 2.0, 0.0]], [[5.0, 1.0, 3.0], [7.0, 1.0, 3.0]]])
    assert best_skill_distance(distances) == pytest.approx((1 + 1 + 1) / 3)
    assert zero_shot_distance(distances, np.array([0, 1, 0])) == pytest.approx((1 + 1 + 1) / 3)
    assert zero_shot_distance(distances, np.array([1, 0, 0])) == pytest.approx((6 + 3 + 1) / 3)


def test_distances_between_sets_by_hand():
    moved = LINE + np.array([0.0, 3.0])
    assert transport(LINE, moved) == 3.0
    assert hausdorff(LINE, moved) == 3.0
    # Moving the point at 0 to 10 and keeping the others costs 10 / 3. The point at 10 is 8 away from the nearest, 2.
    far = np.array([[10.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    assert transport(LINE, far) == pytest.approx(10 / 3)
    assert hausdorff(LINE, far) == 8.0


def test_the_order_of_skills_is_irrelevant():
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
    # SciPy computes optimal transport on a line, also between sets of different sizes.
    for count in (4, 6):
        a, b = generator.normal(size=(count, 1)), generator.normal(size=(6, 1))
        assert transport(a, b) == pytest.approx(wasserstein_distance(a[:, 0], b[:, 0]))


def test_axioms_of_a_metric():
    generator = np.random.default_rng(2)
    x, y, z = generator.normal(size=(3, 5, 2))
    for distance in (hausdorff, transport):
        assert distance(x, x) == 0.0
        assert distance(x, y) == pytest.approx(distance(y, x))
        assert distance(x, z) <= distance(x, y) + distance(y, z) + 1e-12


def test_walking_distance_between_sets():
    """The ends of two branches of the tree have a short straight distance and a long walking distance."""
    layout = layouts.load("tree")
    walking = Geodesic.from_layout(layout).distance
    x, y = layout.cells[-1:], layout.cells[-2:-1]
    assert transport(x, y, walking) > 1.5 * transport(x, y)

"""The measurements of the figures, by hand."""

import numpy as np
import pytest

from edl.envs import layouts
from edl.evaluate import maze_evaluator
from edl.paper import corridor, goal_states, interpolation, landscapes, smm
from edl.paper.measurements import end_spread, lower_left_cell, right_share


def test_distance_to_walls():
    layout = layouts.load("corridor_left")  # y in [-0.5, 0.5], x in [-0.5, 10.5]
    points = np.array([[3.0, 0.0], [3.0, 0.4], [-0.3, 0.1], [10.0, 0.45]])
    np.testing.assert_allclose(smm.distance_to_walls(layout, points), [0.5, 0.1, 0.2, 0.05], atol=1e-9)


def test_right_share():
    ends = np.array([[[[3.0, 0.0], [0.0, 0.0]], [[4.0, 1.0], [2.4, 0.0]]]])
    assert right_share(ends, smm.RIGHT) == [0.5]
    assert right_share(ends, 0.0) == [0.75]


def test_positions_relative_to_the_lower_left_cell_do_not_depend_on_the_start():
    center, left = (layouts.load(f"corridor_{name}") for name in ("center", "left"))
    np.testing.assert_array_equal(lower_left_cell(center) - lower_left_cell(left), [-5.0, 0.0])
    ends_center, ends_left = np.array([[[-5.0, 0.0], [5.0, 0.0]]]), np.array([[[10.0, 0.0], [1.0, 0.0]]])
    distances = corridor.set_distances(ends_center - lower_left_cell(center), ends_left - lower_left_cell(left))
    assert distances == {"transport": [0.5], "hausdorff": [1.0]}


def test_blends_are_ordered_by_share_then_by_pair():
    points = np.array([[[0.0], [4.0], [8.0]]])
    pairs = np.array([[0, 1], [1, 2]])
    expected = [1.0, 5.0, 2.0, 6.0, 3.0, 7.0]
    np.testing.assert_array_equal(interpolation.blend_pairs(points, pairs)[0, :, 0], expected)


def test_walls_between_goals():
    layout = layouts.load("bottleneck")
    goals = np.array([[0.0, 0.0], [4.0, 0.0], [6.0, 0.0]])  # a wall separates the third from the first two
    pairs = np.array([[0, 1], [1, 2]])
    assert interpolation.has_no_wall_between(layout, goals, pairs).tolist() == [True, False]


def test_the_goal_of_forward_mi_is_the_mean_of_its_visits():
    features = np.zeros((1, 1, 2, 3, 2))
    features[0, 0, :, 0] = 99.0  # the start is not a visit
    features[0, 0, 0, 1:] = [[1.0, 0.0], [2.0, 0.0]]
    features[0, 0, 1, 1:] = [[3.0, 4.0], [2.0, 0.0]]
    np.testing.assert_array_equal(goal_states.visit_means(features), [[[2.0, 1.0]]])


def test_distance_to_the_nearest_goal():
    evaluator = maze_evaluator(layouts.load("corridor_left"))
    goals = np.array([[0.0, 0.0], [10.0, 0.0]])
    expected = np.linalg.norm(evaluator.targets[:, None] - goals, axis=-1).min(axis=1).mean()
    assert goal_states.distance_to_nearest(evaluator, goals) == pytest.approx(expected, rel=1e-3)
    assert goal_states.distance_to_nearest(evaluator, np.array([[0.0, 0.0], [99.0, 0.0]])) > expected


def test_the_euclidean_reward_is_deceptive_in_the_bottleneck_and_not_in_a_corridor():
    corridor_layout, bottleneck = layouts.load("corridor_center"), layouts.load("bottleneck")
    assert landscapes.deceptive_share(corridor_layout, corridor_layout.cells) == 0.0
    behind_the_wall, before_the_wall = np.array([[9.0, 9.0]]), np.array([[3.0, 2.0]])
    assert landscapes.deceptive_share(bottleneck, behind_the_wall) == 1.0
    assert landscapes.deceptive_share(bottleneck, before_the_wall) == 0.0


def test_spread_of_the_ends():
    ends = np.array([[[[0.0, 0.0], [2.0, 0.0]], [[5.0, 5.0], [5.0, 5.0]]]])
    assert end_spread(ends) == [0.5]


def test_bin_centres_of_a_maze():
    layout = layouts.load("square")
    points, inside = landscapes.bin_centres(layout)
    assert inside.sum() == 17 * 400
    np.testing.assert_allclose(points[0, 0], np.asarray(layout.bounds[0]) + 0.025)
    cells = np.unique(np.round(points[inside]), axis=0)
    np.testing.assert_array_equal(cells, np.unique(layout.cells, axis=0))

"""What figures measure, by hand."""

import numpy as np
import pytest

from edl.envs import layouts
from edl.evaluate import maze_yardstick
from edl.paper import corridor, goals, interpolation, landscapes, smm
from edl.paper.library import corner


def test_distance_to_walls():
    layout = layouts.load("corridor_left")  # y in [-0.5, 0.5], x in [-0.5, 10.5]
    points = np.array([[3.0, 0.0], [3.0, 0.4], [-0.3, 0.1], [10.0, 0.45]])
    np.testing.assert_allclose(smm.to_walls(layout, points), [0.5, 0.1, 0.2, 0.05], atol=1e-9)


def test_sides_of_the_square():
    ends = np.array([[[[3.0, 0.0], [0.0, 0.0]], [[4.0, 1.0], [2.4, 0.0]]]])
    assert smm.right_share(ends) == [0.5]


def test_places_do_not_depend_on_the_start():
    center, left = (layouts.load(f"corridor_{name}") for name in ("center", "left"))
    np.testing.assert_array_equal(corner(center) - corner(left), [-5.0, 0.0])
    here, there = np.array([[[-5.0, 0.0], [5.0, 0.0]]]), np.array([[[10.0, 0.0], [1.0, 0.0]]])
    found = corridor.distances(here - corner(center), there - corner(left))
    assert found == {"transport": [0.5], "hausdorff": [1.0]}


def test_blends_are_ordered_by_share_then_by_pair():
    points = np.array([[[0.0], [4.0], [8.0]]])
    pairs = np.array([[0, 1], [1, 2]])
    expected = [1.0, 5.0, 2.0, 6.0, 3.0, 7.0]
    np.testing.assert_array_equal(interpolation.blended(points, pairs)[0, :, 0], expected)


def test_walls_between_goals():
    layout = layouts.load("bottleneck")
    ends = np.array([[0.0, 0.0], [4.0, 0.0], [6.0, 0.0]])  # the first two share a room, a wall is before the third
    assert interpolation.unobstructed(layout, ends, np.array([[0, 1], [1, 2]])).tolist() == [True, False]


def test_the_goal_of_forward_mi_is_the_mean_of_its_visits():
    features = np.zeros((1, 1, 2, 3, 2))
    features[0, 0, :, 0] = 99.0  # starts are no visits
    features[0, 0, 0, 1:] = [[1.0, 0.0], [2.0, 0.0]]
    features[0, 0, 1, 1:] = [[3.0, 4.0], [2.0, 0.0]]
    np.testing.assert_array_equal(goals.visit_means(features), [[[2.0, 1.0]]])


def test_way_to_the_nearest_goal():
    yardstick = maze_yardstick(layouts.load("corridor_left"))
    ends = np.array([[0.0, 0.0], [10.0, 0.0]])
    expected = np.linalg.norm(yardstick.targets[:, None] - ends, axis=-1).min(axis=1).mean()
    assert goals.to_nearest(yardstick, ends) == pytest.approx(expected, rel=1e-3)
    assert goals.to_nearest(yardstick, np.array([[0.0, 0.0], [99.0, 0.0]])) > expected


def test_no_reward_deceives_in_a_corridor_and_some_do_in_the_bottleneck():
    straight, crooked = layouts.load("corridor_center"), layouts.load("bottleneck")
    assert landscapes.deceptive_share(straight, straight.cells) == 0.0
    behind_the_wall, before_it = np.array([[9.0, 9.0]]), np.array([[3.0, 2.0]])
    assert landscapes.deceptive_share(crooked, behind_the_wall) == 1.0
    assert landscapes.deceptive_share(crooked, before_it) == 0.0


def test_spread_of_the_ends():
    ends = np.array([[[[0.0, 0.0], [2.0, 0.0]], [[5.0, 5.0], [5.0, 5.0]]]])
    assert landscapes.spread(ends) == [0.5]


def test_lattice_of_a_maze():
    layout = layouts.load("square")
    points, inside = landscapes.lattice(layout)
    assert inside.sum() == 17 * 400
    np.testing.assert_allclose(points[0, 0], np.asarray(layout.bounds[0]) + 0.025)
    cells = np.unique(np.round(points[inside]), axis=0)
    np.testing.assert_array_equal(cells, np.unique(layout.cells, axis=0))

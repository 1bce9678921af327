"""The measurements of the figures, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.envs import layouts
from edl.envs import make as make_env
from edl.envs.rollout import Episode, Skill
from edl.evaluate import maze_evaluator
from edl.nets.normalise import identity_normaliser
from edl.paper import bottleneck, corridor, goal_states, interpolation, landscapes, smm
from edl.paper.measurements import (
    ends_in_region,
    lower_left_cell,
    path_spread,
    reaches_goal,
    right_share,
    shares,
    visited_cells,
)
from edl.runs.config import RunConfig
from edl.runs.result import Run


def episodes_along(paths):
    """Episodes of one seed with these paths: (skills, rollouts, states, 2)."""
    paths = jnp.asarray(paths, jnp.float32)[None]
    no = jnp.zeros((*paths.shape[:3], paths.shape[3] - 1), bool)
    skill = Skill(jnp.zeros((*paths.shape[:3], 1)), jnp.zeros(paths.shape[:3], jnp.int32))
    return Episode(paths, paths, jnp.zeros(no.shape), terminated=no, truncated=no, valid=~no, skill=skill)


def run_to(goals, env="corridor_left"):
    """A run of one seed whose skills are to reach these goals; codes are states."""
    goals = jnp.asarray(goals)
    skills = SkillModel(goals, goals, goals, jnp.ones(len(goals)), None, None, identity_normaliser(2))
    skills = jax.tree.map(lambda leaf: leaf[None], skills)
    return Run(config=RunConfig(), env=make_env(env), layout=layouts.load(env), skills=skills)


def test_distance_to_walls():
    layout = layouts.load("corridor_left")  # y in [-0.5, 0.5], x in [-0.5, 10.5]
    points = np.array([[3.0, 0.0], [3.0, 0.4], [-0.3, 0.1], [10.0, 0.45]])
    np.testing.assert_allclose(smm.distance_to_walls(layout, points), [0.5, 0.1, 0.2, 0.05], atol=1e-9)


def test_number_of_skills_that_reach_the_right_side():
    there, back, away = [[0.0, 0.0], [3.0, 0.0]], [[3.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]
    paths = np.array([[[there, back, away], [there, away, away]]])  # most rollouts of the first skill, at any step
    assert smm.right_skills(paths) == [1.0]


def test_share_of_rollouts_that_stay_in_the_first_room():
    inside, outside = [[0.0, 0.0], [4.4, 4.4]], [[0.0, 0.0], [4.6, 1.0]]
    assert bottleneck.room_share(np.array([[[inside, inside], [inside, outside]]])) == [0.75]


def test_a_skill_reaches_its_goal_if_most_rollouts_end_there():
    run = run_to([[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]])
    ends = [[0.4, 0.6, 0.3], [5.0, 5.6, 5.7], [5.0, 5.0, 5.0]]
    episodes = episodes_along([[[[0.0, 0.0], [x, 0.0]] for x in row] for row in ends])
    assert reaches_goal(run, episodes).tolist() == [[True, False, False]]
    assert ends_in_region(run, episodes).tolist() == [[True, True, False]]  # the third skill ends at the second's goal
    assert shares(reaches_goal(run, episodes)) == [pytest.approx(1 / 3)]


def test_a_goal_behind_a_wall_is_not_reached():
    run = run_to([[5.0, 0.0]], "bottleneck")
    before, behind = ([[[[0.0, 0.0], [x, 0.0]]]] for x in (4.4, 4.6))  # the wall is at x = 4.5
    assert reaches_goal(run, episodes_along(behind)).tolist() == [[True]]
    assert reaches_goal(run, episodes_along(before)).tolist() == [[False]]


def test_cells_that_were_visited():
    layout = layouts.load("corridor_left")
    episodes = episodes_along([[[[0.0, 0.0], [1.2, 0.0]]], [[[0.0, 0.0], [3.9, 0.2]]]])
    (visited,) = visited_cells(layout, episodes)
    assert np.flatnonzero(visited).tolist() == [0, 1, 4]
    assert len(visited) == 11


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
    corridor_layout, layout = layouts.load("corridor_center"), layouts.load("bottleneck")
    assert not landscapes.is_deceptive(corridor_layout, corridor_layout.cells).any()
    behind_and_before_the_wall = np.array([[9.0, 9.0], [3.0, 2.0]])
    assert landscapes.is_deceptive(layout, behind_and_before_the_wall).tolist() == [True, False]


def test_share_of_failures_among_some_skills():
    failed, chosen = np.array([[True, False, True], [True, True, True]]), np.array([[True, True, False], [False] * 3])
    assert landscapes.share_among(failed, chosen) == [0.5, None]


def test_confidence_of_the_posterior_at_unexplored_points():
    fields = np.array([[[0.5, 0.9, 0.2], [0.5, 0.1, 0.8]]])  # two skills at three points
    points, near_the_first = np.array([[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]), [[[[0.0, 0.0], [0.2, 0.0]]]]
    confidence = landscapes.unexplored_confidence(fields, points, episodes_along(near_the_first))
    assert confidence == [pytest.approx(0.85)]
    everywhere = episodes_along([[[[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]]])
    assert landscapes.unexplored_confidence(fields, points, everywhere) == [None]


def test_spread_of_trajectories():
    still = [[5.0, 5.0], [5.0, 5.0]]
    apart = [[[0.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]]  # 1 from the mean at the first step, 0 at the second
    paths = np.array([[apart, [still, still]], [apart, apart]])
    chosen = np.array([[True, True], [False, False]])
    assert path_spread(paths, chosen) == [0.25, None]
    assert path_spread(paths, np.array([[True, False], [True, True]])) == [0.5, 0.5]


def test_distances_between_seeds():
    run = np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[3.0, 0.0]]])  # three seeds with one skill
    assert corridor.seed_distances(run)["transport"] == [3.0, 1.0, 2.0]
    assert corridor.seed_distances(run, run + 1)["hausdorff"] == [3.0, 1.0, 2.0]
    assert corridor.seed_distances(run[:1])["transport"] == []


def test_errors_of_blends_over_the_chosen_pairs():
    blended, nearer = np.array([[[1.0, 3.0]], [[5.0, 5.0]]]), np.array([[[2.0, 2.0]], [[5.0, 5.0]]])
    chosen = np.array([[True, False], [False, False]])
    assert interpolation.mean_errors(blended, nearer, chosen) == ([1.0], [2.0], [1, 0])


def test_bin_centres_of_a_maze():
    layout = layouts.load("square")
    points, inside = landscapes.bin_centres(layout)
    assert inside.sum() == 17 * 400
    np.testing.assert_allclose(points[0, 0], np.asarray(layout.bounds[0]) + 0.025)
    cells = np.unique(np.round(points[inside]), axis=0)
    np.testing.assert_array_equal(cells, np.unique(layout.cells, axis=0))

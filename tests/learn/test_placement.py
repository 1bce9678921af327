"""A goal on the wrong side of a wall moves to the other side, and a goal close to a wall moves away from it.

All other goals stay where they were discovered.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.learn.distance import EuclideanDistance
from edl.learn.placement import clearances, move_from_walls, place, walls_between
from edl.learn.walking import WalkingDistance, visible_landmarks
from edl.nets.normalise import Normaliser
from tests.compiling import jit

WIDTH = 10
placed = jit(place)
moved = jit(move_from_walls)


def distance_between(places, path_lengths, unit):
    """A walking distance with a landmark at each place, and one landmark that no path reaches."""
    places = jnp.concatenate([places, jnp.full((1, places.shape[1]), 0.5)])
    path_lengths = jnp.full((len(places), len(places)), jnp.inf).at[:-1, :-1].set(path_lengths)
    connected = jnp.arange(len(places)) < len(places) - 1
    return WalkingDistance(
        unit=unit,
        landmarks=places,
        half_segments=jnp.zeros_like(places),
        connected=connected,
        starts=connected & False,
        path_lengths=path_lengths,
        visible=visible_landmarks(places, path_lengths, 6),
        reference_states=places[:-1],
        reference_landmarks=jnp.arange(len(places) - 1),
    )


def skills_at(codes, goals):
    """Skills whose encoder is the identity."""
    size, share = codes.shape[1], jnp.full(len(codes), 1.0 / len(codes))
    return SkillModel(codes, goals, codes, share, None, None, Normaliser(jnp.zeros(size), jnp.ones(size)))


def hall_with_a_wall(size=2, unit=1.0):
    """Skills, samples and distance of two long corridors with a thin wall between, which is open only at the left end.

    The last code covers the right half of the lower corridor, but its goal is above the wall.
    """
    x = jnp.repeat(jnp.arange(0.0, WIDTH, 0.5), 2)
    y = jnp.tile(jnp.array([-0.2, 0.2]), 2 * WIDTH)
    path_lengths = jnp.where(y[:, None] == y, jnp.abs(x[:, None] - x), x[:, None] + x + 0.4)
    pad = [(0, 0), (0, size - 2)]
    codes = jnp.pad(jnp.array([[2.0, 0.2], [2.0, -0.2], [7.5, 0.5], [7.5, -0.15]]), pad) * unit
    goals = jnp.pad(jnp.array([[2.0, 0.2], [2.0, -0.2], [7.0, 0.2], [7.5, 0.2]]), pad) * unit
    places = jnp.pad(jnp.stack([x, y], axis=1), pad)
    return skills_at(codes, goals), places * unit, distance_between(places, path_lengths, jnp.full(size, unit))


def two_halls(rows, goals, unit=1.0):
    """Skills, samples and distance of two halls with a thin wall on y = 0 between, which is open only at x = 0.

    The states have integer x and ``rows`` as y, above and below the wall.
    """
    x, y = jnp.meshgrid(jnp.arange(0.0, WIDTH), jnp.concatenate([jnp.array(rows), -jnp.array(rows)]))
    places = jnp.stack([x.ravel(), y.ravel()], axis=1)
    straight, to_the_gap = jnp.linalg.norm(places[:, None] - places, axis=-1), jnp.linalg.norm(places, axis=1)
    same_side = places[:, None, 1] * places[:, 1] > 0
    path_lengths = jnp.where(same_side, straight, to_the_gap[:, None] + to_the_gap)
    goals = jnp.array(goals) * unit
    return skills_at(goals, goals), places * unit, distance_between(places, path_lengths, jnp.full(2, unit))


def open_room():
    """Skills, samples and distance of a room without walls, with a goal in the middle of each quarter."""
    axis = jnp.linspace(-2, 2, 12)
    places = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    path_lengths = jnp.linalg.norm(places[:, None] - places, axis=-1)
    corners = jnp.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.1, 0.9]])
    return skills_at(corners, corners), places, distance_between(places, path_lengths, jnp.ones(2))


@pytest.mark.parametrize(("size", "unit"), [(2, 1.0), (2, 0.5), (4, 3.0)])
def test_a_goal_behind_the_wall_moves_to_the_states_of_its_code(size, unit):
    skills, samples, distance = hall_with_a_wall(size, unit)
    found = placed(skills, samples, distance)
    x, y = np.asarray(found.goals[3, :2]) / unit
    assert y == pytest.approx(-0.2)
    assert 6 <= x <= 8.5
    assert int(skills.assign(found.goals[3])) == 3
    assert bool((samples == found.goals[3]).all(axis=1).any())
    np.testing.assert_array_equal(found.goals[:3], skills.goals[:3])
    np.testing.assert_array_equal(found.decoded, skills.decoded)


def test_placing_twice_equals_placing_once():
    skills, samples, distance = hall_with_a_wall()
    once = placed(skills, samples, distance)
    np.testing.assert_array_equal(placed(once, samples, distance).goals, once.goals)


def test_goals_move_only_to_samples():
    skills, samples, distance = hall_with_a_wall()
    above = samples[samples[:, 1] > 0]  # as with a --region that contains only the upper corridor
    np.testing.assert_array_equal(placed(skills, above, distance).goals[3], skills.goals[3])


@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_clearance_is_the_radius_of_the_disc_that_contains_states_of_both_sides(unit):
    _, samples, distance = two_halls([0.1, 0.5], [[7.0, 0.1]], unit)
    at = jnp.array([[7.0, 0.1], [7.0, 0.5], [7.0, -0.5], [7.3, 0.1], [7.0, 0.0]])
    expected = [0.2, 0.6, 0.6, np.hypot(0.3, 0.2), 0.1]
    np.testing.assert_allclose(jit(clearances)(at, walls_between(distance), distance), expected, rtol=1e-5)
    _, samples, distance = open_room()
    assert np.isinf(jit(clearances)(samples[:2], walls_between(distance), distance)).all()


@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_a_goal_close_to_a_wall_moves_away_from_it_and_a_goal_in_the_open_stays(unit):
    skills, samples, distance = two_halls([0.1, 0.5, 0.9], [[7.0, 0.1], [4.0, -0.1], [2.03, 0.71]], unit)
    found = moved(skills, samples, distance)
    np.testing.assert_allclose(found.goals[:2] / unit, [[7.0, 0.5], [4.0, -0.5]], rtol=1e-6)
    np.testing.assert_array_equal(found.goals[2], skills.goals[2])
    np.testing.assert_array_equal(placed(skills, samples, distance).goals[0], found.goals[0])


def test_a_goal_moves_to_the_side_on_which_it_was_located():
    skills, samples, distance = two_halls([0.1, 0.2, 0.5, 0.9], [[7.0, 0.1]])
    goal, below = (int(jnp.argmin(jnp.linalg.norm(samples - jnp.array(p), axis=1))) for p in ((7, 0.1), (7, -0.1)))
    mistaken = dataclasses.replace(distance, reference_landmarks=distance.reference_landmarks.at[goal].set(below))
    found = moved(skills, samples, mistaken)
    np.testing.assert_allclose(found.goals[0], [7.0, -0.5], rtol=1e-6)


def test_a_goal_moves_to_the_largest_clearance_if_no_state_near_it_has_enough():
    skills, samples, distance = two_halls([0.1, 0.2, 0.3], [[7.0, 0.1]])
    np.testing.assert_allclose(moved(skills, samples, distance).goals[0], [7.0, 0.3], rtol=1e-6)


def test_a_goal_moves_away_from_a_wall_only_to_states_of_its_code():
    skills, samples, distance = two_halls([0.1, 0.5, 0.9], [[7.0, 0.1], [7.0, 0.7]])
    beside = jnp.array([[7.6, 0.4]])  # 0.67 from the goal, and the nearest sample of its code
    found = moved(skills, jnp.concatenate([samples, beside]), distance)
    assert int(skills.assign(found.goals[0])) == 0


def test_no_goal_moves_in_an_open_room():
    skills, samples, distance = open_room()
    np.testing.assert_array_equal(placed(skills, samples, distance).goals, skills.goals)


def test_placing_under_vmap_equals_placing_each_seed_alone():
    skills, samples, distance = hall_with_a_wall()
    right = dataclasses.replace(skills, goals=skills.goals.at[3, 1].set(-0.2))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), skills, right)
    together = jit(jax.vmap(place, in_axes=(0, None, None)))(both, samples, distance)
    for i, each in enumerate((skills, right)):
        np.testing.assert_array_equal(together.goals[i], placed(each, samples, distance).goals)


def test_skills_are_unchanged_without_walking_distance_or_if_they_are_continuous():
    skills, samples, distance = hall_with_a_wall()
    assert place(skills, samples, EuclideanDistance()) is skills
    continuous = dataclasses.replace(skills, continuous=True)
    assert place(continuous, samples, distance) is continuous

"""Goals that no state can reach are found, and snapped to one that was explored."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.discover.goals import goal_report, off_support, skill_model, snap
from edl.nets.normalise import identity


@pytest.fixture(scope="module")
def ring():
    """Uniform over [0, 3]^2 without its middle cell."""
    x = jax.random.uniform(jax.random.key(0), (4096, 2), maxval=3.0)
    return x[~jnp.all((x > 1.0) & (x < 2.0), axis=-1)]


def test_snap_takes_the_nearest_state():
    samples = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    goals = jnp.array([[0.9, 0.2], [5.0, 5.0]])
    np.testing.assert_array_equal(snap(goals, samples), [[1.0, 0.0], [1.0, 1.0]])


def test_snap_weighs_dimensions_by_their_spread():
    samples = jnp.array([[0.0, 0.0], [1000.0, 0.0], [0.0, 1.0], [1000.0, 1.0]])
    np.testing.assert_array_equal(snap(jnp.array([[100.0, 0.9]]), samples), [[0.0, 1.0]])


def test_a_goal_in_the_hole_or_outside_is_off_the_support(ring):
    goals = jnp.array([[1.5, 1.5], [3.5, 0.5], [0.5, 0.5], [2.5, 1.5]])
    np.testing.assert_array_equal(off_support(goals, ring), [True, True, False, False])


def test_states_are_on_their_own_support(ring):
    assert not off_support(ring[:500] + 1e-3, ring).any()


def test_copies_of_a_state_do_not_shrink_the_spacing(ring):
    copies = jnp.concatenate([ring, jnp.repeat(ring[:1], 5 * len(ring), axis=0)])
    goals = jnp.array([[1.5, 1.5], [0.5, 0.5]])
    np.testing.assert_array_equal(off_support(goals, copies), [True, False])


def test_one_state_only_is_its_own_support():
    samples = jnp.ones((8, 2))
    np.testing.assert_array_equal(off_support(jnp.array([[1.0, 1.0], [2.0, 1.0]]), samples), [False, True])


def test_report_by_hand(ring):
    codes = jnp.array([[1.5, 1.5], [0.5, 0.5], [9.0, 9.0]])
    skills = skill_model(codes, (None, None), identity(2), ring, snap_to=ring)
    report = goal_report(skills, States(ring))
    moved = np.linalg.norm(np.asarray(skills.goals - codes), axis=-1)
    assert report["goals_off_support"] == 2
    assert report["codes_used"] == 2
    assert report["usage_min"] == 0
    np.testing.assert_allclose(report["goal_offset"], moved.max())
    assert moved[0] > 0.49
    np.testing.assert_array_equal(skills.decoded, codes)
    assert not off_support(skills.goals, ring).any()


def test_goals_stay_where_they_are_unless_snapped(ring):
    skills = skill_model(jnp.array([[1.5, 1.5]]), (None, None), identity(2), ring, snap_to=None)
    np.testing.assert_array_equal(skills.goals, [[1.5, 1.5]])
    np.testing.assert_allclose(skills.usage, [1.0])

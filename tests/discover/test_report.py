"""The report of a skill model: usage of the codes, and goals that are far from all explored states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.discover import off_support, skill_report
from edl.discover.skill_model import build_skill_model
from edl.nets.normalise import identity_normaliser


@pytest.fixture(scope="module")
def ring():
    """Uniform over [0, 3]^2 without its middle cell."""
    x = jax.random.uniform(jax.random.key(0), (4096, 2), maxval=3.0)
    return x[~jnp.all((x > 1.0) & (x < 2.0), axis=-1)]


def test_a_goal_in_the_hole_or_outside_is_off_the_support(ring):
    goals = jnp.array([[1.5, 1.5], [3.5, 0.5], [0.5, 0.5], [2.5, 1.5]])
    np.testing.assert_array_equal(off_support(goals, ring), [True, True, False, False])
    # The spacing of the states is about 0.02: even a goal just inside the hole is off the support.
    np.testing.assert_array_equal(off_support(jnp.array([[1.15, 1.5], [3.15, 0.5]]), ring), [True, True])


def test_states_are_on_their_own_support(ring):
    assert not off_support(ring[:500] + 1e-3, ring).any()


def test_random_points_between_uniform_states_are_rarely_off_the_support():
    states, points = np.random.default_rng(0).uniform(size=(2, 8000, 2))
    inner = points[np.all((points > 0.1) & (points < 0.9), axis=-1)]
    assert off_support(inner, states).sum() <= 3  # 0.01^(1.5^2) of 5,000 points is 0.16


def test_sparsely_explored_parts_belong_to_the_support():
    rng = np.random.default_rng(0)
    dense, sparse = rng.uniform(size=(8000, 2)), rng.uniform((1.0, 0.0), (2.0, 1.0), size=(400, 2))
    goals = rng.uniform((1.1, 0.1), (1.9, 0.9), size=(100, 2))
    assert off_support(goals, np.concatenate([dense, sparse])).mean() < 0.15
    assert off_support(np.array([[1.5, 1.4]]), np.concatenate([dense, sparse])).all()


def test_dimensions_are_measured_in_their_standard_deviations(ring):
    goals = jnp.array([[1.5, 1.5], [0.5, 0.5]])
    stretched = jnp.array([1.0, 1e4])
    np.testing.assert_array_equal(off_support(goals * stretched, ring * stretched), [True, False])


def test_copies_of_a_state_do_not_shrink_the_spacing(ring):
    copies = jnp.concatenate([ring, jnp.repeat(ring[:1], 5 * len(ring), axis=0)])
    goals = jnp.array([[1.5, 1.5], [0.5, 0.5]])
    np.testing.assert_array_equal(off_support(goals, copies), [True, False])


def test_a_single_state_is_its_own_support():
    samples = jnp.ones((8, 2))
    np.testing.assert_array_equal(off_support(jnp.array([[1.0, 1.0], [2.0, 1.0]]), samples), [False, True])


def test_report_by_hand(ring):
    codes = jnp.array([[1.5, 1.5], [0.5, 0.5], [9.0, 9.0]])
    skills = build_skill_model(codes, (None, None), identity_normaliser(2), ring, snap_to=ring)
    report = skill_report(skills, ring)
    moved = np.linalg.norm(np.asarray(skills.goals - codes), axis=-1)
    first, second, third = np.asarray(skills.usage)
    assert report["goals_off_support"] == 2
    assert (report["codes_used"], report["dead_codes"], report["usage_min"]) == (2, 1, 0)
    assert third == 0
    assert report["perplexity"] == pytest.approx(np.exp(-first * np.log(first) - second * np.log(second)), rel=1e-5)
    assert report["goal_offset"] == pytest.approx(moved.max())
    assert moved[0] > 0.49
    assert not off_support(skills.goals, ring).any()

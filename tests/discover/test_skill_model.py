"""Codes are decoded to goals, and goals are snapped to explored states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.discover.skill_model import build_skill_model, snap
from edl.nets.normalise import identity_normaliser


@pytest.fixture(scope="module")
def states():
    return jax.random.uniform(jax.random.key(0), (500, 2), maxval=3.0)


def test_snap_returns_the_nearest_state():
    samples = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    goals = jnp.array([[0.9, 0.2], [5.0, 5.0]])
    np.testing.assert_array_equal(snap(goals, samples), [[1.0, 0.0], [1.0, 1.0]])


def test_snap_weights_dimensions_by_their_spread():
    samples = jnp.array([[0.0, 0.0], [1000.0, 0.0], [0.0, 1.0], [1000.0, 1.0]])
    np.testing.assert_array_equal(snap(jnp.array([[100.0, 0.9]]), samples), [[0.0, 1.0]])


def test_goals_are_snapped_and_the_decoded_ones_are_kept(states):
    codes = jnp.array([[1.5, 1.5], [0.5, 0.5], [9.0, 9.0]])
    skills = build_skill_model(codes, (None, None), identity_normaliser(2), states, snap_to=states)
    np.testing.assert_array_equal(skills.decoded, codes)
    np.testing.assert_array_equal(skills.goals, snap(codes, states))
    nearest = np.argmin(np.linalg.norm(np.asarray(states)[:, None] - np.asarray(codes), axis=-1), axis=1)
    np.testing.assert_allclose(skills.usage, np.bincount(nearest, minlength=3) / 500, rtol=1e-5)


def test_goals_are_the_decoded_states_without_snapping(states):
    skills = build_skill_model(jnp.array([[1.5, 1.5]]), (None, None), identity_normaliser(2), states, snap_to=None)
    np.testing.assert_array_equal(skills.goals, [[1.5, 1.5]])
    np.testing.assert_allclose(skills.usage, [1.0])

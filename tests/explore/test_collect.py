"""Samples of p(s) are visited states, drawn in proportion to their weights."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.artifacts import Experience
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_states, record, visited_states
from tests.compiling import jit

KEY = jax.random.key(0)


def experience(paths, lengths):
    paths = jnp.asarray(paths, jnp.float32)
    return Experience(paths, jnp.zeros((paths.shape[0], paths.shape[1] - 1, 2)), jnp.asarray(lengths, jnp.int32))


THREE = experience(np.arange(9.0).reshape(3, 3, 1), [2, 1, 0])
"""Three episodes with a horizon of two steps: of length two, of length one, and not played."""


def test_only_real_states_count_as_visited():
    states, real = visited_states(THREE)
    np.testing.assert_array_equal(states[:, 0], np.arange(9))
    np.testing.assert_array_equal(real, [1, 1, 1, 1, 1, 0, 0, 0, 0])


def test_states_are_drawn_in_proportion_to_their_weights():
    weights = jnp.array([1.0, 2.0, 0.0, 4.0, 1.0, 9.0, 9.0, 9.0, 9.0])
    states = draw_states(KEY, THREE, weights, 800)
    assert states.experience is THREE
    counts = np.bincount(states.samples[:, 0].astype(int), minlength=9)
    np.testing.assert_allclose(
        counts, [100, 200, 0, 400, 100, 0, 0, 0, 0], atol=1
    )  # systematic resampling: counts are exact up to one


def test_all_samples_are_inside_the_region():
    states = draw_states(KEY, THREE, jnp.ones(9), 100, lambda s: (s[0] > 0.5) & (s[0] < 2.5))
    assert set(np.unique(states.samples)) == {1.0, 2.0}


def test_rounding_never_draws_states_without_weight():
    # The cumulative sum of thousands of weights is rounded. No draw may fall into a step that rounding created.
    rng = np.random.default_rng(0)
    many = experience(rng.uniform(-1, 1, (200, 51, 1)), np.where(np.arange(200) % 2, 50, 0))
    weights = 1 / jnp.asarray(rng.integers(1, 500, 200 * 51), jnp.float32)
    samples = jit(lambda key: draw_states(key, many, weights, 1_000_000, lambda s: s[0] > 0).samples)(KEY)
    assert samples.min() > 0
    assert np.isin(np.unique(samples), many.paths[1::2]).all()


def test_different_keys_draw_different_states_in_a_different_order():
    many = experience(np.arange(1000.0).reshape(10, 100, 1), [99] * 10)
    one, other = (draw_states(key, many, jnp.ones(1000), 100).samples[:, 0] for key in jax.random.split(KEY))
    assert not np.array_equal(np.sort(one), np.sort(other))
    assert not np.array_equal(one, np.sort(one))


def test_recording_appends_to_earlier_episodes():
    episodes = Episode(
        observations=jnp.ones((2, 3, 1)),
        features=jnp.full((2, 3, 1), 7.0),
        actions=jnp.full((2, 2, 2), 5.0),
        terminated=jnp.zeros((2, 2), bool),
        truncated=jnp.zeros((2, 2), bool),
        valid=jnp.array([[True, True], [True, False]]),
        skill=Skill(jnp.zeros((2, 0)), jnp.zeros(2, jnp.int32)),
    )
    after = record(THREE, episodes, jnp.int32(1))
    np.testing.assert_array_equal(after.lengths, [2, 2, 1])
    np.testing.assert_array_equal(after.paths[0], THREE.paths[0])
    np.testing.assert_array_equal(after.paths[1:], 7.0)
    np.testing.assert_array_equal(after.actions[:, 0, 0], [0, 5, 5])

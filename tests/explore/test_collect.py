"""Samples of p(s) are visited states, drawn in proportion to their weights. Recorded episodes are whole episodes."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.artifacts import Experience
from edl.envs.gridworld import OneStep
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import (
    draw_states,
    draw_visited,
    empty_sample,
    flat_weights,
    record,
    record_sample,
    visited_states,
)
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


def test_all_visited_states_are_drawn_with_the_same_probability():
    counts = np.bincount(draw_visited(KEY, THREE, 5000)[:, 0].astype(int), minlength=9)
    np.testing.assert_allclose(counts, [1000] * 5 + [0] * 4, atol=90)  # three standard deviations
    assert (counts[5:] == 0).all()


def test_states_are_drawn_in_proportion_to_their_weights():
    weights = jnp.array([1.0, 2.0, 0.0, 4.0, 1.0, 9.0, 9.0, 9.0, 9.0])
    states = draw_states(KEY, THREE, weights, 800)
    assert states.experience is THREE
    counts = np.bincount(states.samples[:, 0].astype(int), minlength=9)
    np.testing.assert_allclose(
        counts, [100, 200, 0, 400, 100, 0, 0, 0, 0], atol=1
    )  # systematic resampling: counts are exact up to one


def test_all_visited_cells_have_the_same_weight():
    states, real = visited_states(THREE)
    np.testing.assert_array_equal(flat_weights(states, real, 2.0)[:5], [0.5, 0.5, 0.5, 0.5, 1.0])


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


# A random choice of episodes


def batch_of(starts, steps, codes, ended, valid=None):
    """Lanes that count upwards from ``starts``. Their actions are minus the states they lead to."""
    states = jnp.asarray(starts, jnp.float32)[:, None] + jnp.arange(steps + 1.0)
    lanes, flags = len(starts), jnp.zeros((len(starts), steps), bool)
    valid = jnp.ones((lanes, steps), bool) if valid is None else jnp.asarray(valid)
    codes = jnp.asarray(codes, jnp.float32)[:, None]
    return Episode(
        observations=states[..., None],
        features=states[..., None],
        actions=-states[:, 1:, None],
        terminated=flags,
        truncated=flags.at[:, -1].set(jnp.asarray(ended)),
        valid=valid,
        skill=Skill(codes, jnp.zeros(lanes, jnp.int32)),
    )


RECORD = jit(record_sample)


def test_parts_of_an_episode_are_joined():
    sample = empty_sample(OneStep(horizon=4), 3, lanes=2, code_size=1)
    sample = RECORD(KEY, sample, batch_of([0, 10], 2, [1, 2], [False, False]))
    np.testing.assert_array_equal(sample.experience.paths[:, :, 0], [[0, 1, 2, 2, 2], [10, 11, 12, 12, 12], [0] * 5])
    # The first lane goes on. The episode of the second was cut short, which only its new code shows.
    sample = RECORD(KEY, sample, batch_of([2, 20], 2, [1, 3], [True, False]))
    recorded = sample.in_order()
    np.testing.assert_array_equal(recorded.lengths, [4, 2, 2])
    np.testing.assert_array_equal(
        recorded.paths[:, :, 0], [[0, 1, 2, 3, 4], [10, 11, 12, 12, 12], [20, 21, 22, 22, 22]]
    )
    np.testing.assert_array_equal(
        recorded.actions[:, :, 0], [[-1, -2, -3, -4], [-11, -12, -12, -12], [-21, -22, -22, -22]]
    )


def test_an_episode_that_ended_is_followed_by_a_new_one_even_with_the_same_code():
    sample = empty_sample(OneStep(horizon=4), 3, lanes=1, code_size=1)
    for start in (0, 5):
        sample = RECORD(KEY, sample, batch_of([start], 2, [1], [True]))
    np.testing.assert_array_equal(sample.in_order().lengths, [2, 2, 0])
    np.testing.assert_array_equal(sample.in_order().paths[1, :3, 0], [5, 6, 7])


def test_only_valid_steps_are_recorded():
    sample = empty_sample(OneStep(horizon=3), 1, lanes=1, code_size=1)
    sample = RECORD(KEY, sample, batch_of([4], 3, [1], [True], [[True, True, False]]))
    assert sample.experience.lengths[0] == 2
    np.testing.assert_array_equal(sample.experience.paths[0, :, 0], [4, 5, 6, 6])


def test_recorded_episodes_are_a_uniform_sample_in_order():
    """200 episodes in parts of two steps, of which at most 20 are kept. Episode i counts from 100 i."""

    def run(key):
        def play(sample, inputs):
            key, number = inputs
            lanes = 100.0 * (5 * (number // 2) + jnp.arange(5)) + 2 * (number % 2)
            batch = batch_of(lanes, 2, jnp.arange(5) + number // 2, jnp.tile(number % 2 == 1, 5))
            return record_sample(key, sample, batch), None

        inputs = (jax.random.split(key, 80), jnp.arange(80))
        start = empty_sample(OneStep(horizon=4), 20, lanes=5, code_size=1)
        return jax.lax.scan(play, start, inputs)[0].in_order()

    found = jit(jax.vmap(run))(jax.random.split(KEY, 40))
    paths, firsts = np.asarray(found.paths[..., 0]), np.asarray(found.paths[..., 0, 0])
    assert (np.asarray(found.lengths) == 4).all()
    np.testing.assert_array_equal(paths - firsts[..., None], np.broadcast_to(np.arange(5), paths.shape))
    assert (np.diff(firsts, axis=1) > 0).all()
    quarters = np.histogram(firsts, 4, (0, 20_000))[0] / firsts.size
    np.testing.assert_allclose(quarters, 0.25, atol=0.06)  # standard error 0.015

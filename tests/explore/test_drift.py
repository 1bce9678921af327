"""Drift: the persistence of its actions, its coverage compared with uniform random actions, and its samples of p(s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.gridworld import chain, gridworld
from edl.explore.drift import DriftConfig, drift, random_persistence
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.program import run_program
from tests.compiling import jit

KEY = jax.random.key(0)
GRID = gridworld(41, 41, horizon=40)
CONFIG = DriftConfig(iterations=2, rollouts=32, num_samples=300, region=lambda s: s[0] > 0)


def tiles(experience):
    """The different tiles that were visited. All episodes must have the full length."""
    assert (experience.lengths == experience.paths.shape[1] - 1).all()
    return {tuple(state) for state in np.asarray(experience.paths).reshape(-1, experience.paths.shape[-1])}


@pytest.fixture(scope="module")
def drifted():
    return jit(lambda key: run_program(drift(GRID, CONFIG), key))(KEY)


def test_time_scales_are_log_uniform_between_one_step_and_the_horizon():
    persistence = jax.vmap(lambda key: random_persistence(key, 100))(jax.random.split(KEY, 4000))
    exponents = -jnp.log(1 - persistence) / jnp.log(100.0)
    assert 0 <= exponents.min() < 0.01
    assert 0.99 < exponents.max() <= 1.001
    np.testing.assert_allclose(jnp.quantile(exponents, jnp.array([0.25, 0.5, 0.75])), [0.25, 0.5, 0.75], atol=0.03)
    assert random_persistence(KEY, 1) == 0  # an episode of one step repeats nothing


def test_covers_more_than_uniform_random_actions_with_as_many_steps(drifted):
    states, _ = drifted
    uniform = RandomWalkConfig(iterations=CONFIG.iterations, rollouts=CONFIG.rollouts, persistence=0.0)
    walked, _ = jit(lambda key: run_program(random_walk(GRID, uniform), key))(KEY)
    assert states.experience.lengths.sum() == walked.experience.lengths.sum()
    assert len(tiles(states.experience)) > 1.5 * len(tiles(walked.experience))
    farthest = [np.abs(each.experience.paths).max() for each in (states, walked)]
    assert farthest[0] == 20  # the border
    assert farthest[0] > 1.2 * farthest[1]


def test_every_episode_is_recorded_and_its_steps_are_declared(drifted):
    states, metrics = drifted
    program = drift(GRID, CONFIG)
    assert states.experience.paths.shape == (64, 41, 2)
    assert program.iterations * program.env_steps == states.experience.lengths.sum() == 64 * 40
    np.testing.assert_array_equal(metrics["length"], [40.0, 40.0])


def test_episodes_repeat_their_actions_on_different_time_scales(drifted):
    actions = np.asarray(drifted[0].experience.actions)
    repeated = np.mean(actions[:, 1:] == actions[:, :-1], axis=1)
    assert repeated.min() < 0.4  # one fifth if every action is new
    assert repeated.max() == 1.0


def test_samples_are_num_samples_visited_states_in_the_region(drifted):
    states, _ = drifted
    assert states.samples.shape == (300, 2)
    assert {tuple(state) for state in np.asarray(states.samples)} <= tiles(states.experience)
    assert states.samples[:, 0].min() > 0
    assert states.experience.paths[..., 0].min() < 0  # the experience is not restricted


def test_p_of_s_is_uniform_over_the_visited_tiles():
    # Every tile of the chain is a cell of its own, so it has the total weight 1. The second dimension is constant.
    config = DriftConfig(iterations=1, rollouts=32, num_samples=4000)
    states, _ = jit(lambda key: run_program(drift(chain(5, 12, terminates=False), config), key))(KEY)
    visits = np.bincount(np.asarray(states.experience.paths[..., 0], int).reshape(-1), minlength=5)
    assert visits[0] / visits.sum() > 0.3
    shares = np.bincount(np.asarray(states.samples[:, 0], int), minlength=5) / 4000
    np.testing.assert_allclose(shares, 0.2, atol=0.02)


def test_states_after_a_termination_are_ignored():
    config = DriftConfig(iterations=2, rollouts=8, num_samples=100)
    states, metrics = jit(lambda key: run_program(drift(chain(3, 30, terminates=True), config), key))(KEY)
    lengths = np.asarray(states.experience.lengths)
    assert 2 <= lengths.min() < 30
    np.testing.assert_allclose(metrics["length"], lengths.reshape(2, 8).mean(axis=1), rtol=1e-6)
    assert set(np.unique(states.samples[:, 0])) <= {0.0, 1.0, 2.0}

"""Random actions that are repeated with the given probability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.base import Box, Discrete
from edl.envs.gridworld import chain
from edl.envs.maze import maze
from edl.explore.random_walk import RandomWalkConfig, random_action, random_episode, random_walk
from edl.program import run_program
from tests.compiling import jit

KEY = jax.random.key(0)
SQUARE = maze("square", horizon=20)


@pytest.mark.parametrize("persistence", [0.0, 0.6, 1.0])
def test_actions_are_repeated_with_probability_persistence(persistence):
    episodes = jit(jax.vmap(lambda key: random_episode(key, SQUARE, persistence)))(jax.random.split(KEY, 100))
    repeated = jnp.all(episodes.actions[:, 1:] == episodes.actions[:, :-1], axis=-1)
    assert jnp.mean(repeated) == pytest.approx(persistence, abs=0.03)


def test_actions_are_uniform_over_the_space():
    keys = jax.random.split(KEY, 4000)
    box = jax.vmap(lambda key: random_action(key, Box(jnp.array([-1.0, 0.0]), jnp.array([1.0, 5.0]))))(keys)
    np.testing.assert_allclose(
        jnp.quantile(box, jnp.array([0.25, 0.5, 0.75]), axis=0), [[-0.5, 1.25], [0, 2.5], [0.5, 3.75]], atol=0.15
    )
    discrete = jax.vmap(lambda key: random_action(key, Discrete(4)))(keys)
    np.testing.assert_allclose(np.bincount(discrete) / 4000, 0.25, atol=0.03)


@pytest.fixture(scope="module")
def walked():
    config = RandomWalkConfig(iterations=3, rollouts=5, num_samples=500, region=lambda s: s[0] > 0)
    program = random_walk(SQUARE, config)
    states, metrics = jit(lambda key: run_program(random_walk(SQUARE, config), key))(KEY)
    return program, states, metrics


def test_every_episode_is_recorded(walked):
    program, states, _ = walked
    assert states.experience.paths.shape == (15, 21, 2)
    np.testing.assert_array_equal(states.experience.lengths, 20)
    assert program.iterations * program.env_steps == states.experience.lengths.sum()
    assert len(np.unique(states.experience.paths[:, 0], axis=0)) == 15


def test_samples_are_visited_states_in_the_region(walked):
    _, states, _ = walked
    visited = {tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 2)}
    assert {tuple(s) for s in np.asarray(states.samples)} <= visited
    assert states.samples.shape == (500, 2)
    assert states.samples[:, 0].min() > 0


def test_an_env_with_discrete_actions_and_terminations():
    config = RandomWalkConfig(iterations=2, rollouts=8, num_samples=100)
    states, _ = jit(lambda key: run_program(random_walk(chain(3, 30, terminates=True), config), key))(KEY)
    lengths = np.asarray(states.experience.lengths)
    assert (lengths >= 2).all()
    assert lengths.min() < 30
    assert set(np.unique(states.samples[:, 0])) <= {0.0, 1.0, 2.0}
    ends = np.take_along_axis(np.asarray(states.experience.paths)[..., 0], lengths[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(ends[lengths < 30], 2.0)

"""Particle entropy: distances agree with SciPy, the reservoir is a uniform sample, and the explorer explores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import edl
from edl.config import ConfigError
from edl.envs.gridworld import gridworld
from edl.envs.rollout import Episode, Skill
from edl.explore.knn import KNNConfig, Particles, knn, knn_bonus, mean_distance, update_reservoir
from edl.nets.normalise import RunningMoments
from edl.program import run_program

CONFIG = KNNConfig(iterations=6, rollouts=8, particles=128, neighbours=3, constant=0.5, num_samples=64)
GENERATOR = np.random.default_rng(0)
SCALE = np.array([2.0, 0.5, 1.0])


def episode_of(reached):
    """An episode that visits these states."""
    features, zeros = jnp.concatenate([jnp.zeros((1, 3)), reached]), jnp.zeros(len(reached), bool)
    return Episode(features, features, zeros, zeros, zeros, zeros, Skill(jnp.zeros(0), jnp.int32(0)))


def particles(states, seen):
    moments = RunningMoments(jnp.float32(4.0), jnp.ones(3), 4 * jnp.asarray(SCALE**2, jnp.float32))
    return Particles(jnp.asarray(states, jnp.float32), jnp.int32(seen), moments)


def test_reward_equals_the_formula():
    states, queries = GENERATOR.normal(size=(100, 3)), GENERATOR.normal(size=(20, 3))
    distances = KDTree(states[:60] / SCALE).query(queries / SCALE, 3)[0].mean(axis=1)
    reservoir = particles(states, 60)  # the other 40 rows are padding
    rewards = jax.jit(knn_bonus(3, CONFIG).reward)(reservoir, episode_of(jnp.asarray(queries, jnp.float32)))
    np.testing.assert_allclose(rewards, np.log(0.5 + distances), rtol=1e-4, atol=1e-5)


def test_reward_is_zero_without_enough_neighbours():
    reservoir = particles(np.zeros((10, 3)), 2)
    assert np.isinf(mean_distance(reservoir, jnp.zeros(3), 3))
    np.testing.assert_array_equal(knn_bonus(3, CONFIG).reward(reservoir, episode_of(jnp.ones((1, 3)))), [0.0])


def test_the_reservoir_is_a_uniform_sample_of_all_states():
    stream = jnp.arange(4000.0).reshape(40, 100, 1)
    valid = jnp.tile(jnp.arange(100) % 2 == 0, (40, 1))

    @jax.jit
    def run(key):
        start = (jnp.full((200, 1), -1.0), jnp.int32(0))
        keys = jax.random.split(key, 40)

        def add(reservoir, batch):
            batch_key, *states_and_valid = batch
            return update_reservoir(batch_key, *reservoir, *states_and_valid), None

        return jax.lax.scan(add, start, (keys, stream, valid))[0]

    rows, seen = jax.vmap(run)(jax.random.split(jax.random.key(0), 8))
    assert (np.asarray(seen) == 2000).all()
    values = np.asarray(rows).ravel()
    assert (values >= 0).all()
    assert (values % 2 == 0).all()
    quarters = np.histogram(values, 4, (0, 4000))[0] / 1600
    np.testing.assert_allclose(quarters, 0.25, atol=0.05)  # standard error 0.011


def test_the_reservoir_fills_in_order():
    reservoir, seen = update_reservoir(
        jax.random.key(0), jnp.zeros((4, 1)), jnp.int32(1), jnp.array([[5.0], [6.0], [7.0]]), jnp.array([1, 0, 1], bool)
    )
    np.testing.assert_array_equal(reservoir[:, 0], [0, 5, 7, 0])
    assert seen == 3


def test_more_neighbours_than_particles_are_rejected_before_anything_runs(tmp_path):
    message = r"number of particles \(got neighbours=12 and particles=5\)\. Lower explorer\.neighbours"
    with pytest.raises(ConfigError, match=message):
        edl.run("square", explore="knn", explorer={"particles": 5}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_explores():
    env = gridworld(7, 7, 12)
    states, metrics = jax.jit(lambda key: run_program(knn(env, CONFIG), key))(jax.random.key(0))
    assert states.samples.shape == (64, 2)
    assert states.experience.paths.shape == (48, 13, 2)
    assert (np.asarray(states.experience.lengths) == 12).all()
    assert all(np.isfinite(each).all() for each in jax.tree.leaves((states, metrics)))
    assert metrics["return"][0] == 0
    assert (np.asarray(metrics["return"][1:]) != 0).all()
    assert len(np.unique(np.asarray(states.experience.paths).reshape(-1, 2), axis=0)) > 25

"""The oracle draws uniformly from an env, or from a region of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.explore.oracle import OracleConfig, oracle
from edl.program import run_program
from tests.compiling import jit

LAYOUT = layouts.load("tree")
ENV = maze(LAYOUT)


def draw(**settings):
    config = OracleConfig(**settings)
    return jit(lambda key: run_program(oracle(ENV, config), key)[0])(jax.random.key(0))


def test_is_uniform_over_the_cells():
    states = draw(num_samples=6200)
    gaps = np.abs(np.asarray(states.samples)[:, None] - LAYOUT.cells).max(axis=-1)
    assert (gaps.min(axis=1) <= 0.5).all()
    shares = np.bincount(gaps.argmin(axis=1), minlength=len(LAYOUT.cells)) / 6200
    np.testing.assert_allclose(shares, 1 / len(LAYOUT.cells), rtol=0.3)
    assert states.experience is None


def test_a_region_is_filled_with_num_samples():
    samples = np.asarray(draw(num_samples=1000, region=lambda s: s[0] > 1.0).samples)
    assert samples.shape == (1000, 2)
    assert (samples[:, 0] > 1.0).all()
    assert len(np.unique(samples, axis=0)) == 1000


def test_a_region_too_small_to_fill_repeats_its_states():
    samples = np.asarray(draw(num_samples=500, region=lambda s: jnp.all(jnp.abs(s) < 0.1)).samples)
    assert (np.abs(samples) < 0.1).all()
    assert 1 < len(np.unique(samples, axis=0)) < 500


def test_an_env_without_sample_states_is_rejected():
    message = r"explore=oracle needs an env with sample_states \(got GridWorld\).* frontier"
    with pytest.raises(ConfigError, match=message):
        oracle(gridworld(3, 3, 4), OracleConfig())

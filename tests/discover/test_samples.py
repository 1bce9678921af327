"""The states that a discoverer accepts, and the subset that it learns from."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.config import ConfigError
from edl.discover import METHODS, check_states
from edl.discover.samples import subsample
from edl.discover.vqvae import VQVAEConfig

TEN = np.arange(20.0, dtype=np.float32).reshape(10, 2)


@pytest.mark.parametrize(("available", "count"), [(1000, 300), (301, 300), (600, 300)])
def test_subsample_draws_different_rows_from_all_parts(available, count):
    states = States(jnp.arange(float(available))[:, None])
    rows = np.asarray(subsample(jax.random.key(0), states, count))[:, 0]
    assert len(set(rows)) == len(rows) == count
    assert abs(rows.mean() - (available - 1) / 2) < available / count


def test_subsample_depends_on_the_key_and_reaches_every_row():
    states = States(jnp.arange(10.0)[:, None])
    rows = jax.vmap(lambda key: subsample(key, states, 3)[:, 0])(jax.random.split(jax.random.key(0), 200))
    assert set(np.unique(rows)) == set(range(10))


def test_subsample_returns_all_states_if_there_are_few():
    np.testing.assert_array_equal(subsample(jax.random.key(0), States(jnp.asarray(TEN)), 4096), TEN)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_default_and_the_paper_recipe_are_accepted(method):
    check_states(method.config(), TEN)
    check_states(method.config.paper(), np.stack([TEN, TEN]))
    method.build(States(jnp.asarray(TEN)), method.config())
    assert method.config().snap_goals
    assert not method.config.paper().snap_goals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_skills": 0}, r"num_skills must be an integer of at least 1 \(got 0\)"),
        ({"num_skills": -3}, r"num_skills must be .* \(got -3\)"),
        ({"batch_size": 0}, r"batch_size must be .* \(got 0\)"),
        ({"patience": -1}, r"patience must be an integer of at least 0 \(got -1\)"),
        ({"learning_rate": -1e-3}, r"learning_rate must be .* \(got -0.001\)"),
        ({"commitment": float("nan")}, r"commitment must be .* \(got nan\)"),
        ({"num_skills": 500}, "num_skills=500 exceeds the 10 different states explored: explore longer"),
    ],
)
def test_bad_numbers_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_states(dataclasses.replace(VQVAEConfig(), **changes), TEN)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_more_skills_than_states_are_rejected_when_the_program_is_built(method):
    states, many = States(jnp.zeros((64, 2))), dataclasses.replace(method.config(), num_skills=500)
    message = "num_skills=500 exceeds the 64 states explored: explore longer or ask for fewer skills."
    with pytest.raises(ConfigError, match=message):
        method.build(states, many)
    seeds = jax.vmap(States)(jnp.zeros((3, 64, 2)))
    with pytest.raises(ConfigError, match=message):
        jax.eval_shape(jax.vmap(lambda states: method.build(states, many).init(jax.random.key(0))), seeds)
    few = dataclasses.replace(method.config(), num_skills=5, num_samples=3)
    with pytest.raises(ConfigError, match="num_skills=5 exceeds num_samples=3: raise num_samples of the discoverer"):
        method.build(states, few)


def test_states_with_nan_or_infinity_are_counted():
    broken = TEN.copy()
    broken[3, 1], broken[7, 0] = np.nan, np.inf
    with pytest.raises(ConfigError, match="2 of the 10 states explored contain NaN or infinity, the first in row 3"):
        check_states(VQVAEConfig(), broken)


def test_a_seed_with_broken_states_is_found_among_many():
    broken = TEN.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ConfigError, match="1 of the 10 states"):
        check_states(VQVAEConfig(), np.stack([TEN, broken]))


def test_copies_of_a_state_count_once():
    with pytest.raises(ConfigError, match="num_skills=10 exceeds the 4 different states explored"):
        check_states(VQVAEConfig(), np.tile(TEN[:4], (50, 1)))
    with pytest.raises(ConfigError, match="num_skills=10 exceeds the 1 different states explored"):
        check_states(VQVAEConfig(), np.stack([np.tile(TEN, (5, 1)), np.ones((50, 2), np.float32)]))


def test_an_empty_array_is_rejected():
    with pytest.raises(ConfigError, match="Explore longer"):
        check_states(VQVAEConfig(), np.zeros((0, 2), np.float32))

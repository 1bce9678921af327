"""What a discoverer accepts, and which of the states it learns from."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.config import ConfigError
from edl.discover import METHODS
from edl.discover.samples import check_discover, subsample
from edl.discover.vqvae import VQVAEConfig

TEN = States(jnp.arange(20.0).reshape(10, 2))


def seeds(*samples):
    """The states of many seeds, as a vmapped explorer leaves them."""
    return jax.vmap(States)(jnp.stack(samples))


@pytest.mark.parametrize(("available", "wanted"), [(1000, 300), (301, 300), (600, 300)])
def test_subsample_takes_different_rows_from_everywhere(available, wanted):
    states = States(jnp.arange(float(available))[:, None])
    rows = np.asarray(subsample(jax.random.key(0), states, wanted))[:, 0]
    assert len(set(rows)) == len(rows) == wanted
    assert abs(rows.mean() - (available - 1) / 2) < available / wanted


def test_subsample_depends_on_the_key_and_reaches_every_row():
    states = States(jnp.arange(10.0)[:, None])
    rows = jax.vmap(lambda key: subsample(key, states, 3)[:, 0])(jax.random.split(jax.random.key(0), 200))
    assert set(np.unique(rows)) == set(range(10))


def test_subsample_keeps_all_of_a_few():
    np.testing.assert_array_equal(subsample(jax.random.key(0), TEN, 4096), TEN.samples)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_defaults_and_the_paper_are_accepted(method):
    check_discover(method.config(), TEN)
    check_discover(method.config.paper(), seeds(TEN.samples, TEN.samples))
    assert method.config().snap_goals
    assert not method.config.paper().snap_goals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_skills": 500}, "num_skills=500 exceeds the 10 states explored.*fewer skills"),
        ({"num_skills": 5, "num_samples": 3}, "num_skills=5 exceeds the 3 states"),
        ({"num_skills": 0}, "num_skills=0: wanted at least 1"),
        ({"num_skills": -3}, "num_skills=-3"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"patience": -1}, "patience=-1: wanted at least 0"),
        ({"learning_rate": -1e-3}, "learning_rate=-0.001"),
        ({"commitment": float("nan")}, "commitment=nan"),
    ],
)
def test_bad_numbers_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_discover(dataclasses.replace(VQVAEConfig(), **changes), TEN)


def test_states_that_are_not_numbers_are_counted():
    broken = TEN.samples.at[3, 1].set(jnp.nan).at[7, 0].set(jnp.inf)
    with pytest.raises(ConfigError, match="2 of the 10 states explored hold NaN or infinity, the first in row 3"):
        check_discover(VQVAEConfig(), States(broken))


def test_a_seed_with_broken_states_is_found_among_many():
    with pytest.raises(ConfigError, match="1 of the 10 states"):
        check_discover(VQVAEConfig(), seeds(TEN.samples, TEN.samples.at[0, 0].set(jnp.nan)))


def test_copies_do_not_count_as_states():
    with pytest.raises(ConfigError, match="num_skills=10 exceeds the 4 different states explored"):
        check_discover(VQVAEConfig(), States(jnp.tile(TEN.samples[:4], (50, 1))))


def test_no_states_at_all():
    with pytest.raises(ConfigError, match="Explore longer"):
        check_discover(VQVAEConfig(), States(jnp.zeros((0, 2))))

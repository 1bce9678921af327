"""Coverage of an explorer while it runs."""

import jax
import jax.numpy as jnp

from edl.artifacts import Experience
from edl.envs import layouts
from edl.runs.live import coverage_so_far

LAYOUT = layouts.parse("+-+-+\n|S  |\n+-+-+\n", "two_cells")


def test_coverage_is_computed_from_the_experience_in_a_state_and_averaged_over_seeds():
    paths = jnp.array([[[[0.0, 0.0], [0.3, 0.0]]], [[[0.0, 0.0], [0.01, 0.0]]]])
    experience = Experience(paths, jnp.zeros((2, 1, 1, 2)), jnp.ones((2, 1), jnp.int32))
    seen = coverage_so_far(LAYOUT)({"policy": jnp.zeros(2), "so_far": experience})
    bins = 2 * 20 * 20
    assert jnp.isclose(seen["data_coverage"], (2 / bins + 1 / bins) / 2)


def test_states_without_experience_have_no_coverage():
    assert coverage_so_far(None)({"any": jnp.zeros(3)}) == {}
    assert coverage_so_far(LAYOUT)(jax.random.key(0)) == {}

"""Every method learns in an env that starts at the origin, where the output of a network with zero biases is zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines import METHODS
from edl.baselines.skill_priors import unit_vector
from edl.envs.gridworld import gridworld
from edl.program import run_program
from tests.compiling import jit
from tests.laws.cases import shrink

ENV = gridworld(2, 2, 6)
"""Episodes start in a corner: most steps of a random policy stay there or come back."""
WITH_UNIT_VECTORS = ("becl", "cic", "visr", "aps", "discern")
"""Methods that scale the output of a network to unit length and differentiate the result."""


def names():
    """Methods for discrete actions; the tests of those without unit vectors are slow."""
    acting = [name for name, method in METHODS.items() if not method.offline and name != "map_elites"]
    return [name if name in WITH_UNIT_VECTORS else pytest.param(name, marks=pytest.mark.slow) for name in acting]


def test_a_unit_vector_has_finite_gradients_everywhere():
    points = jnp.array([[0.0, 0.0], [1e-8, 0.0], [3e-6, 4e-6], [3.0, 4.0]])
    jacobians = jax.vmap(jax.jacobian(unit_vector))(points)
    assert np.isfinite(jacobians).all()
    assert np.abs(jacobians[0]).max() <= 1
    np.testing.assert_allclose(jax.vmap(unit_vector)(points)[2:], [[0.6, 0.8]] * 2, rtol=1e-5)


@pytest.mark.parametrize("name", names())
def test_metrics_and_results_are_finite(name):
    method = METHODS[name]
    program = method.build(ENV, shrink(method.config()))
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    for leaf in jax.tree.leaves((policy, metrics)):
        assert np.isfinite(leaf).all()

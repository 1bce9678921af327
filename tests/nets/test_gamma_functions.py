"""log Gamma and its derivatives agree with SciPy for arguments above 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special as scipy_special

from edl.nets.gamma_functions import betaln, digamma, lgamma, trigamma

X = np.concatenate([np.linspace(1.0, 4.0, 301), np.geomspace(4.0, 1e4, 400)]).astype(np.float32)

# Absolute tolerance: log Gamma and digamma cross zero in (1, 2].
CROSSING = 2e-6


@pytest.mark.parametrize(
    ("ours", "exact"),
    [
        (lgamma, scipy_special.gammaln),
        (digamma, scipy_special.digamma),
        (trigamma, lambda x: scipy_special.polygamma(1, x)),
    ],
    ids=["lgamma", "digamma", "trigamma"],
)
def test_agrees_with_scipy(ours, exact):
    np.testing.assert_allclose(jax.jit(ours)(X), exact(X.astype(np.float64)), rtol=1e-5, atol=CROSSING)


def test_derivatives_are_digamma_and_trigamma():
    first, second = jax.grad(lgamma), jax.grad(jax.grad(lgamma))
    x = X[::7].astype(np.float64)
    np.testing.assert_allclose(jax.jit(jax.vmap(first))(X[::7]), scipy_special.digamma(x), rtol=1e-5, atol=CROSSING)
    np.testing.assert_allclose(jax.jit(jax.vmap(second))(X[::7]), scipy_special.polygamma(1, x), rtol=1e-5)


def test_betaln_and_its_gradients_agree_with_scipy():
    a, b = (grid.reshape(-1) for grid in np.meshgrid(np.geomspace(1.05, 500, 20), np.geomspace(1.05, 500, 20)))
    a, b = jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)
    exact_a, exact_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Terms as large as log Gamma(1000) = 5905 cancel, and float32 has seven digits.
    np.testing.assert_allclose(jax.jit(betaln)(a, b), scipy_special.betaln(exact_a, exact_b), rtol=1e-5, atol=2e-3)
    of_a, of_b = jax.jit(jax.vmap(jax.grad(betaln, (0, 1))))(a, b)
    total = scipy_special.digamma(exact_a + exact_b)
    np.testing.assert_allclose(of_a, scipy_special.digamma(exact_a) - total, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_b, scipy_special.digamma(exact_b) - total, rtol=1e-4, atol=1e-5)

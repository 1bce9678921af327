"""Vector quantisation agrees with values computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.nets.quantiser import code_usage, nearest, perplexity, quantise, straight_through

CODES = jnp.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])


def test_nearest_code_by_hand():
    z = jnp.array([[1.0, 1.0], [2.0, 0.5], [0.0, 2.5], [-9.0, 0.0]])
    index = jax.vmap(nearest, in_axes=(0, None))(z, CODES)
    np.testing.assert_array_equal(index, [0, 1, 2, 0])


def test_quantise_by_hand():
    quantised = quantise(jnp.array([2.0, 0.5]), CODES)
    assert quantised.index == 1
    np.testing.assert_array_equal(quantised.code, [3.0, 0.0])
    assert quantised.codebook == quantised.commitment == 1.25


def test_straight_through_has_the_value_of_the_code_and_the_gradient_of_z():
    z, code = jnp.array([0.1, 1e6]), jnp.array([0.3, 1e-6])
    value, pullback = jax.vjp(straight_through, z, code)
    np.testing.assert_array_equal(value, code)
    np.testing.assert_array_equal(pullback(jnp.array([5.0, -7.0]))[0], [5.0, -7.0])


def test_the_gradient_of_the_decoder_reaches_z_and_not_the_codebook():
    def decoded(z, codes):
        return jnp.sum(quantise(z, codes).code ** 2)

    by_z, by_codes = jax.grad(decoded, argnums=(0, 1))(jnp.array([2.0, 0.5]), CODES)
    np.testing.assert_allclose(by_z, [6.0, 0.0])  # 2 e, the gradient at the code
    np.testing.assert_array_equal(by_codes, jnp.zeros((3, 2)))


def test_each_loss_term_has_a_gradient_for_one_side_only():
    z = jnp.array([2.0, 0.5])
    moves_code = jax.grad(lambda z, codes: quantise(z, codes).codebook, argnums=(0, 1))(z, CODES)
    moves_z = jax.grad(lambda z, codes: quantise(z, codes).commitment, argnums=(0, 1))(z, CODES)
    np.testing.assert_array_equal(moves_code[0], [0.0, 0.0])
    np.testing.assert_allclose(moves_code[1], [[0.0, 0.0], [2.0, -1.0], [0.0, 0.0]])  # 2 (e - z) for the nearest row
    np.testing.assert_allclose(moves_z[0], [-2.0, 1.0])
    np.testing.assert_array_equal(moves_z[1], jnp.zeros((3, 2)))


def test_perplexity_is_the_effective_number_of_codes():
    np.testing.assert_allclose(perplexity(jnp.full(10, 0.1)), 10.0, rtol=1e-5)
    np.testing.assert_allclose(perplexity(jnp.array([0.5, 0.0, 0.5])), 2.0, rtol=1e-5)
    np.testing.assert_allclose(perplexity(jnp.array([0.0, 1.0])), 1.0, rtol=1e-5)


def test_code_usage_by_hand():
    np.testing.assert_allclose(code_usage(jnp.array([0, 2, 2, 2]), 4), [0.25, 0.0, 0.75, 0.0])

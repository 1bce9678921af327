"""The terms of the VAE agree with values computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.nets.mlp import MLP
from edl.nets.vae import VAE, new_vae


def linear(weight, bias):
    return MLP([jnp.asarray(weight)], [jnp.asarray(bias)])


def test_terms_by_hand():
    # mean = x, log-variance = log 4; D(z) = 2 z + 1.
    vae = VAE(linear([[1.0, 0.0]], [0.0, np.log(4.0)]), linear([[2.0]], [1.0]))
    terms = vae.terms(jnp.array([1.0]), jnp.array([0.5]))
    # z = 1 + 2 * 0.5 = 2, D(z) = 5, and KL(N(1, 4) || N(0, 1)) = (1 + 4 - 1 - log 4) / 2.
    np.testing.assert_allclose(terms.error, 16.0, rtol=1e-6)
    np.testing.assert_allclose(terms.divergence, 0.5 * (4.0 - np.log(4.0)), rtol=1e-6)
    np.testing.assert_allclose(vae.terms(jnp.array([1.0]), jnp.float32(0.0)).error, (1.0 - 3.0) ** 2, rtol=1e-6)


def test_the_decoder_mirrors_the_encoder():
    vae = new_vae(*jax.random.split(jax.random.key(0)), size=3, hidden=(8, 5), code_size=2)
    assert [weight.shape for weight in vae.encoder.weights] == [(3, 8), (8, 5), (5, 4)]
    assert [weight.shape for weight in vae.decoder.weights] == [(2, 5), (5, 8), (8, 3)]

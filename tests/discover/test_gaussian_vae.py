"""Continuous skills: the loss by hand, and a decoder that maps the prior to the explored states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.discover.gaussian_vae import GaussianVAEConfig, gaussian_vae, loss, representative_codes
from edl.discover.report import off_support
from edl.nets.mlp import MLP
from edl.nets.vae import VAE
from edl.program import run_program


def linear(weight, bias):
    return MLP([jnp.asarray(weight)], [jnp.asarray(bias)])


def test_loss_by_hand():
    # mean = x, log-variance = log 4; D(z) = 2 z + 1.
    model = VAE(linear([[1.0, 0.0]], [0.0, np.log(4.0)]), linear([[2.0]], [1.0]))
    value, metrics = loss(model, jnp.array([[1.0]]), jnp.array([[0.5]]), jnp.float32(0.1))
    # z = 1 + 2 * 0.5 = 2, D(z) = 5, and KL(N(1, 4) || N(0, 1)) = (1 + 4 - 1 - log 4) / 2.
    divergence = 0.5 * (4.0 - np.log(4.0))
    np.testing.assert_allclose(metrics["reconstruction"], 16.0, rtol=1e-5)
    np.testing.assert_allclose(metrics["divergence"], divergence, rtol=1e-5)
    np.testing.assert_allclose(value, 8.0 + 0.1 * divergence, rtol=1e-5)


def test_codes_are_spread_over_the_prior():
    codes = representative_codes(jax.random.key(0), 10, 2)
    apart = np.linalg.norm(np.asarray(codes)[:, None] - codes, axis=-1) + 10 * np.eye(10)
    assert apart.min() > 0.5
    np.testing.assert_allclose(jnp.mean(codes, axis=0), 0.0, atol=0.3)


@pytest.fixture(scope="module")
def trained():
    """Two rooms of a maze, and skills for them."""
    x = jax.random.uniform(jax.random.key(0), (2048, 2)) * jnp.array([6.0, 1.0])
    states = States(jnp.where(x[:, :1] > 3.0, x + jnp.array([0.0, 4.0]), x))
    config = GaussianVAEConfig(gradient_steps=600)
    return states, *jax.jit(lambda key: run_program(gaussian_vae(states, config), key))(jax.random.key(1))


def test_draws_from_the_prior_decode_to_states(trained):
    states, skills, metrics = trained
    assert skills.continuous
    assert metrics["loss"][-1] < 0.5 * metrics["loss"][0]
    goals = jax.vmap(lambda key: skills.sample(key).goal)(jax.random.split(jax.random.key(2), 500))
    assert np.mean(off_support(goals, states.samples)) < 0.25
    assert jnp.mean(goals[:, 1] > 3.0) == pytest.approx(0.5, abs=0.15)  # both rooms


def test_decoding_inverts_encoding(trained):
    states, skills, _ = trained
    reconstructed = jax.vmap(lambda state: skills.decode(skills.encode(state)))(states.samples)
    assert jnp.mean(jnp.linalg.norm(reconstructed - states.samples, axis=-1)) < 0.4
    assert skills.encode(states.samples[0]).shape == (2,)


def test_goals_of_the_codes_are_explored_states(trained):
    states, skills, _ = trained
    assert skills.codes.shape == (10, 2)
    assert not off_support(skills.goals, states.samples).any()

"""VIC: reward, classifier input and gradient of the prior by hand; training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.vic import VICConfig, first_and_last, prior_loss, vic, vic_reward
from tests.baselines.probe import increases, learn
from tests.learn.episodes import episode

PATH = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_reward_by_hand():
    posterior, prior = jnp.log(jnp.array([0.7, 0.2, 0.1])), jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert np.isclose(vic_reward(posterior, prior, jnp.int32(1)), np.log(0.2 / 0.25))


def test_the_classifier_sees_the_first_and_the_last_valid_state():
    np.testing.assert_array_equal(first_and_last(episode(PATH)), [1.0, 2.0, 5.0, 6.0])
    np.testing.assert_array_equal(first_and_last(episode(PATH, length=1)), [1.0, 2.0, 3.0, 4.0])


def test_prior_loss_and_its_gradient_by_hand():
    """dl_k = mean (r - b) (1{z = k} - p_k) + w dH/dl_k, where dH/dl_k = -p_k (log p_k + H)."""
    p, weight = np.array([0.5, 0.3, 0.2]), 0.1
    skills, advantages = np.array([0, 2, 2, 1]), np.array([1.0, -2.0, 0.5, 3.0])
    entropy = -np.sum(p * np.log(p))
    inputs = (jnp.log(jnp.asarray(p, jnp.float32)), jnp.asarray(skills), jnp.asarray(advantages, jnp.float32))
    (loss, metrics), gradient = jax.value_and_grad(prior_loss, has_aux=True)(*inputs, weight)
    assert np.isclose(loss, -np.mean(advantages * np.log(p[skills])) - weight * entropy)
    assert np.isclose(metrics["effective_skills"], np.exp(entropy))
    climb = np.mean(advantages[:, None] * (np.eye(3)[skills] - p), axis=0) - weight * p * (np.log(p) + entropy)
    np.testing.assert_allclose(gradient, -climb, atol=1e-6)


@pytest.fixture(scope="module", params=[True, False], ids=["learned_prior", "fixed_prior"])
def learned(request):
    config = VICConfig(num_skills=4, hidden=(32,), learn_prior=request.param, learning_rate=5e-3)
    return request.param, learn(vic, config)[1]


def test_the_objective_increases_and_last_states_become_distinguishable(learned):
    _, metrics = learned
    assert increases(metrics["return"], 0.5)
    assert metrics["return"][-6:].mean() > 0.6 * np.log(4)
    assert metrics["accuracy"][-6:].mean() > 0.75


def test_the_prior_changes_only_if_it_is_learned(learned):
    is_learned, metrics = learned
    effective = metrics["effective_skills"]
    assert np.isclose(effective[0], 4.0, atol=1e-4)
    assert (effective <= 4.0 + 1e-4).all()
    # We test the minimum during training: once all skills are distinguishable, the best prior is uniform again.
    assert (effective.min() < 4.0 - 1e-2) == is_learned

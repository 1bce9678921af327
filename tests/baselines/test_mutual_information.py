"""The paper's two canonical baselines: rewards and losses by hand, and the paper's theory about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.forward_mi import ForwardMIConfig, density_loss, forward_mi, forward_reward
from edl.baselines.model_fitting import Visits
from edl.baselines.reverse_mi import ReverseMIConfig, classifier_loss, reverse_mi, reverse_reward
from edl.envs.maze import maze
from edl.nets.mlp import MLP
from edl.program import run_program
from edl.rl.ppo import PPOConfig


def test_reverse_reward_by_hand():
    logits = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert np.isclose(reverse_reward(logits, jnp.int32(1)), np.log(0.25) + np.log(3))


def test_forward_reward_by_hand():
    means = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    state = jnp.array([0.0, 1.0])
    q = np.exp([-0.5, -0.5 * (9 + 9)])
    expected = np.log(q[0]) - np.log(q.mean())
    assert np.isclose(forward_reward(means, state, jnp.int32(0)), expected, atol=1e-6)


@pytest.mark.parametrize("distance", [0.0, 10.0, 20.0, 1e3, 1e6])
def test_forward_reward_stays_finite_at_any_distance(distance):
    means = jnp.zeros((10, 2)).at[:, 0].set(jnp.arange(10.0))
    reward = forward_reward(means, jnp.array([0.0, distance]), jnp.int32(3))
    assert np.isfinite(reward)
    assert reward <= np.log(10) + 1e-5


@pytest.mark.parametrize("skills", [2, 5, 10])
def test_the_reward_of_known_states_is_at_most_log_n_and_that_of_unseen_states_zero(skills):
    """Appendix of the paper: with perfect densities, r_max = log N in states of one skill, r_new = 0 in unseen ones."""
    own = jnp.full(skills, -jnp.inf).at[0].set(0.0)
    assert np.isclose(reverse_reward(own, jnp.int32(0)), np.log(skills))
    assert np.isclose(reverse_reward(jnp.zeros(skills), jnp.int32(0)), 0.0, atol=1e-6)
    far_apart = 10.0 * jnp.eye(skills)
    assert np.isclose(forward_reward(far_apart, far_apart[0], jnp.int32(0)), np.log(skills))
    equally_far = jnp.zeros(skills)
    assert np.isclose(forward_reward(far_apart, equally_far, jnp.int32(0)), 0.0, atol=1e-4)


def linear(weight, bias):
    return MLP([jnp.asarray(weight, jnp.float32)], [jnp.asarray(bias, jnp.float32)])


def test_losses_by_hand_ignore_visits_with_zero_weight():
    states = jnp.array([[1.0, 0.0], [9.0, 9.0]])
    rows = Visits(states, jnp.array([0, 1]), jnp.array([1.0, 0.0]))
    loss, metrics = classifier_loss(linear(np.eye(2), [0, 0]), rows)
    assert np.isclose(loss, np.log(1 + np.exp(-1.0)))
    assert metrics["accuracy"] == 1.0
    loss, _ = density_loss(linear([[2.0, 0.0], [0.0, 0.0]], [0, 0]), rows)
    assert np.isclose(loss, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "config"), [(reverse_mi, ReverseMIConfig), (forward_mi, ForwardMIConfig)])
def test_the_objective_increases_and_skills_become_distinguishable(build, config):
    ppo = PPOConfig(iterations=40, rollouts=32, minibatches=4, hidden=(32, 32))
    program = build(maze("corridor_center"), config(num_skills=3, hidden=(32,), ppo=ppo))
    _, metrics = jax.jit(lambda key: run_program(program, key))(jax.random.key(0))
    returns = np.asarray(metrics["return"])
    assert returns[-5:].mean() > returns[:5].mean() + 10
    assert returns[-5:].mean() / 50 > 0.5 * np.log(3)

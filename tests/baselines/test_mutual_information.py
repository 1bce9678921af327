"""The paper's two canonical baselines: rewards and losses by hand, and the paper's theory about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.forward_mi import (
    ForwardMIConfig,
    density_loss,
    forward_mi,
    forward_mi_objective,
    forward_reward,
    skill_means,
)
from edl.baselines.model_fitting import Visits, visits_of
from edl.baselines.reverse_mi import (
    ReverseMIConfig,
    classifier_loss,
    reverse_mi,
    reverse_mi_objective,
    reverse_reward,
)
from edl.envs.maze import maze
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser
from edl.program import run_program
from edl.rl.ppo import PPOConfig, paper_ppo
from tests.compiling import jit
from tests.learn.episodes import episode

ENV = maze("corridor_center", horizon=4)
BASELINES = [
    (reverse_mi, ReverseMIConfig, reverse_mi_objective),
    (forward_mi, ForwardMIConfig, forward_mi_objective),
]


def test_reverse_reward_by_hand():
    logits = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert np.isclose(reverse_reward(logits, jnp.int32(1)), np.log(0.25) + np.log(3))


def test_forward_reward_by_hand():
    means = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    state = jnp.array([0.0, 1.0])
    q = np.exp([-1.0, -(9.0 + 9.0)])  # exp(-||s - mu||^2): the variance is 1/2
    expected = np.log(q[0]) - np.log(q.mean())
    assert np.isclose(forward_reward(means, state, jnp.int32(0)), expected, atol=1e-6)
    wide = np.exp([-0.5, -0.5 * (9 + 9)])
    unit_variance = forward_reward(means, state, jnp.int32(0), 1.0)
    assert np.isclose(unit_variance, np.log(wide[0]) - np.log(wide.mean()), atol=1e-6)


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
    means = skill_means(linear([[2.0, 0.0], [0.0, 0.0]], [0, 0]), Normaliser(jnp.zeros(2), jnp.ones(2)))
    np.testing.assert_array_equal(means, [[2.0, 0.0], [0.0, 0.0]])
    assert np.isclose(density_loss(means, rows, 0.5)[0], 1.0)  # ||(1, 0) - (2, 0)||^2
    assert np.isclose(density_loss(means, rows, 2.0)[0], 0.25)


def test_means_are_in_units_of_the_running_moments():
    scale = Normaliser(jnp.array([1.0, -1.0]), jnp.array([2.0, 0.5]))
    means = skill_means(linear([[2.0, 0.0], [0.0, 4.0]], [0, 1.0]), scale)
    np.testing.assert_allclose(means, [[2.0 * 2 + 1, 0.5 - 1], [1.0, 5.0 * 0.5 - 1]])


EPISODES = jax.tree.map(
    lambda *x: jnp.stack(x),
    episode([[9.0, 9.0], [0.0, 0.0], [4.0, 2.0]]),
    episode([[9.0, 9.0], [2.0, 1.0], [7.0, 7.0]], length=1),
)
"""They reach (0, 0), (4, 2) and (2, 1). The other states are a start, or come after the end of an episode."""


@pytest.mark.parametrize(("build", "config", "objective_of"), BASELINES)
@pytest.mark.parametrize("normalise", [True, False])
def test_the_models_normalise_states_like_the_policy(build, config, objective_of, normalise):
    small = config(num_skills=2, hidden=(4,), minibatches=1, ppo=PPOConfig(normalise=normalise))
    objective = objective_of(ENV, small)
    state = jit(lambda key: objective.update(key, objective.init(key), EPISODES)[0])(jax.random.key(0))
    assert state.moments.count == (3 if normalise else 0)
    scale = state.moments.normaliser()
    np.testing.assert_allclose(scale.mean, [2.0, 1.0] if normalise else [0.0, 0.0], atol=1e-6)
    deviation = np.sqrt(8 / 3)
    np.testing.assert_allclose(scale.scale, [deviation, deviation / 2] if normalise else [1.0, 1.0], rtol=1e-5)
    if config is ReverseMIConfig:
        point = jnp.array([1.0, 3.0])
        np.testing.assert_allclose(state.of_states(point), state.classifier.params(scale(point)), rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(state.means, skill_means(state.model.params, scale), rtol=1e-5)


@pytest.mark.parametrize(("build", "config", "objective_of"), BASELINES)
def test_the_model_pays_the_reward_after_it_was_fitted(build, config, objective_of):
    assert objective_of(ENV, config()).learns == "before"
    assert objective_of(ENV, config(separate_batch=True)).learns == "separately"
    assert build(ENV, config(separate_batch=True)).env_steps == 2 * build(ENV, config()).env_steps


@pytest.mark.parametrize(("build", "config", "objective_of"), BASELINES)
@pytest.mark.parametrize("env", ["square", "tree"])
def test_the_recipe_of_the_authors(build, config, objective_of, env):
    recipe = config.paper(env)
    assert recipe.ppo == paper_ppo(env)
    assert (recipe.hidden, recipe.epochs, recipe.minibatches) == ((128, 128), 4, 10)
    assert (recipe.learning_rate, recipe.adam_epsilon, recipe.separate_batch) == (1e-3, 1e-3, True)
    assert config is not ForwardMIConfig or recipe.variance == 0.5
    program = build(maze(env), recipe)
    assert program.iterations * program.env_steps == 12_500_000


def test_visits_are_the_states_that_valid_steps_reach():
    rows = visits_of(EPISODES)
    np.testing.assert_array_equal(rows.weight, [1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(rows.states[:3], [[0.0, 0.0], [4.0, 2.0], [2.0, 1.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("build", "config"), [(reverse_mi, ReverseMIConfig), (forward_mi, ForwardMIConfig)])
def test_the_objective_increases_and_skills_become_distinguishable(build, config):
    ppo = PPOConfig(iterations=40, rollouts=32, minibatches=4, hidden=(32, 32))
    program = build(maze("corridor_center"), config(num_skills=3, hidden=(32,), ppo=ppo))
    _, metrics = jax.jit(lambda key: run_program(program, key))(jax.random.key(0))
    returns = np.asarray(metrics["return"])
    assert returns[-5:].mean() > returns[:5].mean() + 10
    assert returns[-5:].mean() / 50 > 0.5 * np.log(3)

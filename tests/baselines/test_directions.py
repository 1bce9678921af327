"""METRA's family: the map, bound and loss of LSD, CSD and CSF by hand; their skills go in different directions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.constraints import ConstrainedMap, constrained_loss
from edl.baselines.csd import CSDConfig, csd, move_scores
from edl.baselines.csf import CSFConfig, contrastive_loss, csf
from edl.baselines.directions import (
    DirectionMethod,
    cumulants_of,
    direction_objective,
    example_codes,
    progress_loss,
)
from edl.baselines.lsd import LSDConfig, lipschitz_mlp, lsd
from edl.baselines.metra import METRAConfig
from edl.baselines.model_fitting import Fitted, Moves
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.nets.optim import Trained
from edl.program import run_program
from tests.baselines.probe import TINY_SAC
from tests.compiling import jit

SMALL = dataclasses.replace(
    TINY_SAC, iterations=100, objective_batch_size=1280, learn_entropy_weight=True, target_entropy_share=0.3
)
DOUBLE = MLP([2 * jnp.eye(2)], [jnp.zeros(2)])
"""phi(s) = 2 s."""
ROWS = Moves(
    before=jnp.zeros((3, 2)),
    after=jnp.array([[0.3, 0.0], [0.0, 1.0], [9.0, 9.0]]),
    code=jnp.zeros((3, 2)),
    weight=jnp.array([1.0, 1.0, 0.0]),
)
DIRECTIONS = jnp.array([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]])
MEAN_PROGRESS = (0.6 + 1.6) / 2


def test_progress_by_hand_ignores_rows_with_zero_weight():
    loss, metrics = progress_loss(DOUBLE, ROWS, DIRECTIONS)
    assert loss == pytest.approx(-MEAN_PROGRESS)
    assert metrics["squared_step"] == pytest.approx((0.36 + 4.0) / 2)


def test_the_constraint_compares_each_move_with_its_own_bound():
    # Slacks: 1 - 0.36, cut to 0.25, and 3.9 - 4.
    mean_slack = (0.25 - 0.1) / 2
    params = ConstrainedMap(DOUBLE, jnp.log(5.0))
    loss, _ = constrained_loss(params, ROWS, DIRECTIONS, jnp.array([1.0, 3.9, 1.0]), 0.25)
    assert loss == pytest.approx(-MEAN_PROGRESS - 5 * mean_slack + np.log(5) * mean_slack, rel=1e-4)


def test_a_normalised_network_is_one_lipschitz_and_uses_its_range():
    net = lipschitz_mlp(jax.random.key(0), (2, 16, 16, 3)).normalised()
    for weight in net.weights:
        assert jnp.linalg.norm(weight, ord=2) == pytest.approx(1.0, abs=1e-2)
    points = jax.random.normal(jax.random.key(1), (200, 2, 2))
    images = jax.vmap(jax.vmap(net))(points)
    ratios = jnp.linalg.norm(images[:, 0] - images[:, 1], axis=1) / jnp.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    assert ratios.max() <= 1.01


def test_singular_vectors_follow_the_weights_and_have_no_gradient():
    first = lipschitz_mlp(jax.random.key(0), (2, 2))
    changed = dataclasses.replace(first, net=MLP([jnp.diag(jnp.array([0.5, 3.0]))], first.net.biases))
    for _ in range(20):
        changed = changed.follow()
    np.testing.assert_allclose(changed.normalised().weights[0], np.diag([1 / 6, 1.0]), atol=1e-4)
    gradient = jax.grad(lambda each: jnp.sum(each.normalised().weights[0]))(changed)
    assert not np.any(gradient.left[0])
    # d/dW of sum(W / sigma) with u, v = e_2: 1 / sigma - (sum W / sigma^2) u v^T
    np.testing.assert_allclose(gradient.net.weights[0], [[1 / 3, 1 / 3], [1 / 3, 1 / 3 - 3.5 / 9]], atol=1e-4)


def test_the_distance_of_csd_by_hand():
    # mu(s) - s = (0.1, 0), deviations (1/2, 2), whose geometric mean is 1.
    moves = MLP([jnp.zeros((2, 4))], [jnp.array([0.1, 0.0, jnp.log(0.5), jnp.log(2.0)])])
    score, distance = move_scores(moves, jnp.array([1.0, 1.0]), jnp.array([1.4, 3.0]))
    assert distance == pytest.approx(0.3**2 * 4 + 2.0**2 / 4, rel=1e-5)
    assert score == pytest.approx(-0.5 * float(distance), rel=1e-5)  # the logarithms of the deviations cancel
    # The deviations' common factor changes the likelihood but not the distance.
    wider = MLP(moves.weights, [moves.biases[0] + jnp.array([0.0, 0.0, jnp.log(3.0), jnp.log(3.0)])])
    score, again = move_scores(wider, jnp.array([1.0, 1.0]), jnp.array([1.4, 3.0]))
    assert again == pytest.approx(float(distance), rel=1e-5)
    assert score == pytest.approx(-0.5 * float(distance) / 9 - 2 * np.log(3), rel=1e-5)


def test_the_contrast_of_csf_by_hand():
    steps, directions = np.array([[0.6, 0.0], [0.0, 2.0]]), np.asarray(DIRECTIONS)
    log_sums = np.log(np.exp(steps @ directions.T).sum(axis=1))
    loss, metrics = contrastive_loss(DOUBLE, ROWS, DIRECTIONS, 5.0)
    assert loss == pytest.approx(5 * log_sums.mean() - MEAN_PROGRESS, rel=1e-5)
    assert metrics["log_sum_exp"] == pytest.approx(log_sums.mean(), rel=1e-5)


def test_the_best_step_of_csf_is_short_if_it_says_little_about_z():
    """About d / xi times the mean z of those who make it."""
    angles = jnp.arange(64) * 2 * jnp.pi / 64
    circle = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    moves = Moves(jnp.zeros((64, 1)), jnp.ones((64, 1)), circle, jnp.ones(64))

    def loss(length, mean):
        """All rows make one step along the first axis. Their own z are uniform, so their mean is added here."""
        phi = MLP([jnp.array([[length, 0.0]])], [jnp.zeros(2)])
        return contrastive_loss(phi, moves, circle, 5.0)[0] - mean * length

    lengths = jnp.linspace(0, 1, 1001)
    for mean in (1.0, 0.1):
        losses = jax.vmap(loss, (0, None))(lengths, mean)
        assert lengths[jnp.argmin(losses)] == pytest.approx(2 / 5 * mean, rel=0.03)


def test_the_recipe_of_csf_for_robots_is_that_of_metra_with_skills_on_the_circle():
    recipe, metra = CSFConfig.robot(rollouts=8), METRAConfig.robot(continuous=True, rollouts=8)
    assert (recipe.skills, recipe.skill_size, recipe.contrast) == ("continuous", 2, 5.0)
    assert recipe.sac == metra.sac
    assert (recipe.hidden, recipe.learning_rate, recipe.match_policy, recipe.sees) == (
        (metra.hidden, metra.learning_rate, metra.match_policy, metra.sees)
    )


@pytest.mark.parametrize("skills", ["discrete", "continuous"])
def test_the_reward_is_the_product_of_cumulants_and_code(skills):
    config = CSFConfig(num_skills=3, skills=skills, skill_size=3)
    method = DirectionMethod(lambda *_: None, lambda params: params, lambda *_: (jnp.float32(0), {}))
    objective = direction_objective(maze("square"), config, method)
    phi = MLP([jnp.array([[1.0, 2.0, 0.0], [0.0, 0.5, 1.0]])], [jnp.zeros(3)])
    features = jnp.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    code = example_codes(config)[1]
    flags = jnp.zeros(2, bool)
    episode = Episode(features, features, jnp.zeros((2, 2)), flags, flags, ~flags, Skill(code, jnp.int32(1)))
    state = Fitted(Trained(phi, ()), identity_normaliser(2))
    rewards = objective.reward(state, episode)
    np.testing.assert_allclose(cumulants_of(config, method)(state, episode) @ code, rewards, atol=1e-5)
    steps = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0]])
    direction = [-0.5, 1.0, -0.5] if skills == "discrete" else np.asarray(code)
    np.testing.assert_allclose(rewards, steps @ direction, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "config"),
    [
        (lsd, LSDConfig(num_skills=2, hidden=(32,), learning_rate=3e-3, minibatches=20, sac=SMALL)),
        (csd, CSDConfig(num_skills=2, hidden=(32,), learning_rate=3e-3, minibatches=20, sac=SMALL)),
        (csf, CSFConfig(num_skills=2, skill_size=1, hidden=(32,), learning_rate=3e-3, minibatches=20, sac=SMALL)),
    ],
    ids=["lsd", "csd", "csf"],
)
def test_progress_increases_and_skills_go_far_in_their_own_directions(build, config):
    env = maze("corridor_center", horizon=25)
    program = build(env, config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    progress = np.asarray(metrics["progress"])
    assert progress[-5:].mean() > progress[:5].mean() + 0.01
    codes = jnp.array([[1.0], [-1.0]]) if build is csf else jnp.eye(2)
    ends = last_states(rollouts(jax.random.key(0), env, policy, codes, num=10))[..., 0]
    assert abs(ends[0].mean() - ends[1].mean()) > 4  # the corridor is 11 long
    assert policy.pick is not None

"""METRA: its reward, constraint and multiplier by hand; training makes skills go in different directions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.constraints import ConstrainedMap, constrained_loss
from edl.baselines.directions import direction_of, progress
from edl.baselines.goal_skills import start_observations
from edl.baselines.metra import METRAConfig, metra
from edl.baselines.metra_ppo import METRAPPOConfig, metra_ppo
from edl.baselines.model_fitting import Moves, with_model_steps
from edl.baselines.pick_rules import NUM_STARTS
from edl.baselines.skill_priors import example_directions, sample_direction
from edl.config import ConfigError
from edl.envs.base import Box
from edl.envs.maze import maze
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.distributions import action_distribution
from edl.nets.mlp import MLP
from edl.program import run_program
from edl.rl.sac import steps_per_iteration
from edl.rl.sac_losses import target_entropy
from tests.baselines.probe import TINY, TINY_SAC
from tests.compiling import jit
from tests.explore.thruster import Thruster

SMALL = dataclasses.replace(TINY_SAC, iterations=100, objective_batch_size=1280, entropy_weight=0.05)
DOUBLE = MLP([2 * jnp.eye(2)], [jnp.zeros(2)])
"""phi(s) = 2 s."""
ROWS = Moves(
    before=jnp.zeros((3, 2)),
    after=jnp.array([[0.3, 0.0], [0.0, 1.0], [9.0, 9.0]]),
    code=jnp.zeros((3, 2)),
    weight=jnp.array([1.0, 1.0, 0.0]),
)
DIRECTIONS = jnp.array([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]])


def test_discrete_skills_are_directions_with_zero_mean():
    np.testing.assert_allclose(direction_of(jnp.array([0.0, 1.0, 0.0]), True), [-0.5, 1.0, -0.5], atol=1e-6)
    np.testing.assert_allclose(direction_of(jnp.array([0.6, 0.8]), False), [0.6, 0.8])
    assert progress(jnp.array([2.0, 1.0]), jnp.array([0.6, 0.8])) == pytest.approx(2.0)


def test_the_loss_by_hand():
    # Steps of phi: (0.6, 0), whose slack 0.64 is cut to 0.25, and (0, 2), whose slack is -3.
    mean_progress, mean_slack = (0.6 + 1.6) / 2, (0.25 - 3.0) / 2
    loss, metrics = constrained_loss(ConstrainedMap(DOUBLE, jnp.log(5.0)), ROWS, DIRECTIONS, 1.0, 0.25)
    assert loss == pytest.approx(-mean_progress - 5 * mean_slack + np.log(5) * mean_slack, rel=1e-5)
    assert metrics["progress"] == pytest.approx(mean_progress)
    assert metrics["squared_step"] == pytest.approx((0.36 + 4.0) / 2)


def test_the_constraint_of_the_authors_is_a_mean_over_dimensions():
    # The slacks of the two steps are 1 - 0.36 / 2, cut to 0.25, and 1 - 4 / 2.
    loss, metrics = constrained_loss(ConstrainedMap(DOUBLE, jnp.log(5.0)), ROWS, DIRECTIONS, 1.0, 0.25, "mean")
    mean_slack = (0.25 - 1.0) / 2
    assert loss == pytest.approx(-1.1 - 5 * mean_slack + np.log(5) * mean_slack, rel=1e-5)
    assert metrics["step_length"] == pytest.approx((0.6 + 2.0) / 2)


def test_the_multiplier_increases_if_steps_are_too_long_and_decreases_otherwise():
    def gradient(rows):
        return jax.grad(lambda a: constrained_loss(a, rows, DIRECTIONS, 1.0, 0.25)[0])(
            ConstrainedMap(DOUBLE, jnp.log(5.0))
        )

    too_long = gradient(ROWS)
    assert too_long.log_lambda == pytest.approx((0.25 - 3.0) / 2)  # negative: gradient descent increases lambda
    assert gradient(ROWS._replace(weight=jnp.array([1.0, 0.0, 0.0]))).log_lambda == pytest.approx(0.25)
    # phi: -d/dW of (progress + lambda slack). The slack of the first row is cut, so it has no gradient.
    from_progress = -(np.outer([0.3, 0.0], [1.0, 0.0]) + np.outer([0.0, 1.0], [0.6, 0.8])) / 2
    from_constraint = 5 * 2 * np.outer([0.0, 1.0], [0.0, 2.0]) / 2
    np.testing.assert_allclose(too_long.phi.weights[0], from_progress + from_constraint, rtol=1e-5)


def test_continuous_skills_are_unit_vectors():
    drawn = jax.vmap(lambda key: sample_direction(key, 3))(jax.random.split(jax.random.key(0), 500))
    np.testing.assert_allclose(jnp.linalg.norm(drawn.code, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(jnp.mean(drawn.code, axis=0), 0.0, atol=0.1)
    assert set(np.asarray(drawn.index)) == {-1}
    np.testing.assert_allclose(example_directions(4, 2), [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-6)
    np.testing.assert_allclose(jnp.linalg.norm(example_directions(7, 4), axis=1), 1.0, rtol=1e-5)


def test_the_recipe_for_robots_is_that_of_the_authors():
    ant, cheetah = METRAConfig.robot(continuous=True), METRAConfig.robot(continuous=False)
    assert (ant.skills, ant.skill_size, cheetah.skills) == ("continuous", 2, "discrete")
    assert (ant.hidden, ant.sac.hidden, ant.learning_rate, ant.sac.learning_rate) == (*[(1024, 1024)] * 2, 1e-4, 1e-4)
    sac, env = ant.sac, Thruster(horizon=200)
    assert (sac.batch_size, sac.capacity, sac.warmup, sac.gamma, sac.tau) == (256, 10**6, 10**4, 0.99, 0.005)
    assert (ant.first_lambda, ant.slack, sac.entropy_weight) == (30, 1e-3, 0.01)
    actions = action_distribution(Box(-jnp.ones(8), jnp.ones(8)), "tanh_gaussian")
    assert target_entropy(actions, sac.target_entropy_share) == pytest.approx(-8 / 2, rel=1e-5)
    assert sac.iterations * sac.rollouts * 200 == pytest.approx(1e7, rel=5e-3)
    # One gradient step per 32 steps, for phi as for the policy: with the 8 episodes of the authors, 50 per iteration.
    for episodes, steps in ((64, 400), (8, 50)):
        changed = dataclasses.replace(sac, rollouts=episodes)
        assert steps_per_iteration(env, changed) == steps
        assert with_model_steps(env, changed, ant.minibatches, ant.match_policy) == (
            dataclasses.replace(changed, objective_batch_size=256 * steps),
            steps,
        )


TINY_ROBOT = {
    "iterations": 2, "rollouts": 2, "update_every": 8, "batch_size": 4, "capacity": 100, "warmup": 8, "hidden": (4,),
    "random_episodes": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def on_observations():
    """METRA whose phi sees position and velocity: its state before training, and the policy of that state."""
    env = Thruster(horizon=8, scale=16.0)
    program = metra(env, dataclasses.replace(METRAConfig.robot(True, **TINY_ROBOT), num_skills=3, hidden=(4,)))
    state = jit(program.init)(jax.random.key(0))
    return program, state, jit(program.finish)(state)


def test_phi_sees_the_observation_as_the_policy_sees_it(on_observations):
    program, state, policy = on_observations
    assert state.moments.count == 3 * 8  # those of random play
    np.testing.assert_allclose(state.objective.normaliser.scale, policy.normaliser.scale, rtol=1e-6)
    observation = jnp.array([5.0, 1.0, 0.5, 0.0])
    expected = state.objective.model.params.phi(policy.normaliser(observation))
    np.testing.assert_allclose(policy.model(observation), expected, rtol=1e-4)
    after, metrics = jax.eval_shape(program.step, state, jax.random.key(1))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert {"lambda", "step_length"} <= metrics.keys()


def test_a_target_is_put_into_the_observation_of_a_start(on_observations):
    env, (_, _, policy) = Thruster(horizon=8, scale=16.0), on_observations
    starts = start_observations(jax.random.key(0), env, NUM_STARTS)
    start = jnp.mean(starts, axis=0)
    there = jnp.concatenate([jnp.array([30.0, -20.0]), start[2:]])
    expected = policy.model(there) - jnp.mean(jax.vmap(policy.model)(starts), axis=0)
    np.testing.assert_allclose(policy.pick(there[:2]), expected / jnp.linalg.norm(expected), rtol=1e-3)


def test_a_model_of_the_observation_needs_a_fixed_normaliser():
    config = METRAConfig.robot(True, random_episodes=0)
    with pytest.raises(ConfigError, match=r"sac.random_episodes must be at least 1 .* \(got 0 and True\)"):
        metra(Thruster(), config)


@pytest.mark.slow
@pytest.mark.parametrize(("skills", "size"), [("discrete", 2), pytest.param("continuous", 1, marks=pytest.mark.slow)])
def test_progress_increases_and_skills_go_far_in_their_own_directions(skills, size):
    env = maze("corridor_center", horizon=25)
    config = METRAConfig(
        num_skills=2, skills=skills, skill_size=size, hidden=(32,), learning_rate=3e-3, minibatches=20, sac=SMALL
    )
    program = metra(env, config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    returns = np.asarray(metrics["return"])
    assert returns[-5:].mean() > returns[:5].mean() + 2
    assert metrics["squared_step"][-5:].mean() < 1.1
    codes = jnp.eye(2) if skills == "discrete" else jnp.array([[1.0], [-1.0]])
    ends = last_states(rollouts(jax.random.key(0), env, policy, codes, num=10))[..., 0]
    assert abs(ends[0].mean() - ends[1].mean()) > 6  # the corridor is 11 long
    difference = policy.model(jnp.array([4.0, 0.0])) - policy.model(jnp.array([-4.0, 0.0]))
    assert jnp.linalg.norm(difference) > 3


@pytest.mark.slow
def test_metra_learns_with_ppo():
    env = maze("corridor_center", horizon=25)
    config = METRAPPOConfig(num_skills=2, hidden=(32,), learning_rate=3e-3, minibatches=20, ppo=TINY)
    program = metra_ppo(env, config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    assert metrics["squared_step"][-5:].mean() < 1.1
    ends = last_states(rollouts(jax.random.key(0), env, policy, policy.codes, num=10))[..., 0]
    assert abs(ends[0].mean() - ends[1].mean()) > 6

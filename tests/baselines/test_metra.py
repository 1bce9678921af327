"""METRA: its reward, constraint and multiplier by hand; training makes skills go in different directions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.metra import Abstraction, METRAConfig, abstraction_loss, direction_of, metra, progress
from edl.baselines.model_fitting import Moves
from edl.baselines.skill_priors import example_directions, sample_direction
from edl.envs.maze import maze
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.mlp import MLP
from edl.program import run_program
from tests.baselines.probe import TINY_SAC
from tests.compiling import jit

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
    loss, metrics = abstraction_loss(Abstraction(DOUBLE, jnp.log(5.0)), ROWS, DIRECTIONS, 0.25)
    assert loss == pytest.approx(-mean_progress - 5 * mean_slack + np.log(5) * mean_slack, rel=1e-5)
    assert metrics["progress"] == pytest.approx(mean_progress)
    assert metrics["squared_step"] == pytest.approx((0.36 + 4.0) / 2)


def test_the_multiplier_increases_if_steps_are_too_long_and_decreases_otherwise():
    def gradient(rows):
        return jax.grad(lambda a: abstraction_loss(a, rows, DIRECTIONS, 0.25)[0])(Abstraction(DOUBLE, jnp.log(5.0)))

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

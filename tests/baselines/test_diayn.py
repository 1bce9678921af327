"""DIAYN: its reward, loss and training rows by hand; training."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.diayn import DIAYNConfig, diayn
from edl.baselines.model_fitting import visits_of
from edl.baselines.reverse_mi import classifier_loss, reverse_reward
from edl.envs.maze import maze
from edl.envs.rollout import Skill
from edl.nets.mlp import MLP
from edl.program import run_program
from edl.rl.replay import Transition, empty_replay, sample_steps
from tests.baselines.probe import TINY_SAC
from tests.compiling import jit
from tests.explore.thruster import Thruster

SMALL = dataclasses.replace(TINY_SAC, iterations=100, objective_batch_size=2560)


def test_the_reward_by_hand():
    classifier = MLP([jnp.array([[1.0, -1.0], [0.0, 2.0]])], [jnp.array([0.5, 0.0])])
    logits = np.array([2.5, 2.0])  # of the state (2, 2)
    expected = logits[1] - np.log(np.exp(logits).sum()) - np.log(1 / 2)
    assert reverse_reward(classifier(jnp.array([2.0, 2.0])), jnp.int32(1)) == pytest.approx(expected, abs=1e-6)


def test_the_classifier_is_trained_on_the_next_states_of_replayed_steps():
    step = Transition(
        observations=jnp.array([[[7.0, 7.0], [7.0, 7.0]]]),
        features=jnp.array([[[9.0, 9.0], [1.0, 0.0]]]),
        action=jnp.zeros((1, 2)),
        reward=jnp.zeros(1),
        terminated=jnp.zeros(1, bool),
        skill=Skill(jnp.array([[0.0, 1.0]]), jnp.array([1])),
        remaining=jnp.zeros(1, jnp.int32),
    )
    replay = empty_replay(step, 5)._replace(size=jnp.int32(1))
    replay = replay._replace(rows=jax.tree.map(lambda x, new: x.at[0].set(new[0]), replay.rows, step))
    rows = visits_of(sample_steps(jax.random.key(0), replay, 3))
    np.testing.assert_array_equal(rows.states, [[1.0, 0.0]] * 3)
    np.testing.assert_array_equal(rows.skills, [1] * 3)
    loss, metrics = classifier_loss(MLP([jnp.eye(2)], [jnp.zeros(2)]), rows)
    assert loss == pytest.approx(np.log(1 + np.e), abs=1e-6)  # -log softmax((1, 0))[1]
    assert metrics["accuracy"] == 0


def test_the_classifier_can_see_the_observation():
    tiny = {"iterations": 1, "rollouts": 2, "update_every": 8, "batch_size": 4, "capacity": 100, "hidden": (4,)}
    config = dataclasses.replace(DIAYNConfig.robot(**tiny, warmup=8, random_episodes=2), num_skills=3, hidden=(4,))
    program = diayn(Thruster(horizon=8), config)
    state = jax.eval_shape(program.init, jax.random.key(0))
    assert state.objective.model.params.input_size == 4
    policy = jax.eval_shape(lambda key: program.finish(program.init(key)), jax.random.key(0))
    assert policy.pick.classifier.input_size == 2  # a target is given by its features
    after, metrics = jax.eval_shape(program.step, state, jax.random.key(1))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert {"accuracy", "alpha"} <= metrics.keys()


@pytest.fixture(scope="module")
def trained():
    program = diayn(maze("corridor_center"), DIAYNConfig(num_skills=3, hidden=(32,), minibatches=40, sac=SMALL))
    return jit(lambda key: run_program(program, key))(jax.random.key(0))


@pytest.mark.slow
def test_the_objective_increases_and_skills_become_distinguishable(trained):
    _, metrics = trained
    returns = np.asarray(metrics["return"]) / 50
    assert returns[-5:].mean() > returns[:5].mean() + 0.3
    assert returns[-5:].mean() > 0.5 * np.log(3)
    assert metrics["accuracy"][-5:].mean() > 0.75


@pytest.mark.slow
def test_the_entropy_weight_is_fixed(trained):
    policy, metrics = trained
    np.testing.assert_allclose(metrics["alpha"][10:], 0.1, rtol=1e-6)
    assert policy.codes.shape == (3, 3)

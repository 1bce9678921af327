"""SAC with successor features: the loss by hand, and psi . w is the value of one policy for another task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.gridworld import OneStep
from edl.envs.rollout import Skill
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP
from edl.objective import LinearReward, Objective, per_visit
from edl.program import program_keys
from edl.rl.sac import SACConfig, new_agent, sac
from edl.rl.sac_losses import Agent, Batch, LossSettings
from edl.rl.successor import gpi_values, smaller_features, successor_features, successor_loss
from tests.compiling import jit
from tests.probes.envs import GAMMA

KEY = jax.random.key(0)


def stack(*nets):
    return jax.tree.map(lambda *x: jnp.stack(x), *nets)


def constant(values):
    """A network with the same output for all inputs (s, w_1, w_2)."""
    return MLP([jnp.zeros((3, len(values)))], [jnp.asarray(values, jnp.float32)])


def test_smaller_features_have_the_smaller_value_for_the_task():
    features = jnp.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]])
    tasks = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(smaller_features(features, tasks), [[0.0, 2.0], [1.0, 0.0]])


def discrete_batch():
    """Two steps with the tasks (1, 0) and (0, 1); the second one terminates."""
    inputs = jnp.array([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])
    return Batch(
        inputs=inputs,
        next_inputs=inputs,
        actions=jnp.array([0, 1]),
        rewards=jnp.array([[0.6, 0.8], [1.0, 0.0]]),
        terminated=jnp.array([False, True]),
        noise=jnp.zeros((2, 2, 0)),
    )


def test_the_loss_by_hand_with_discrete_actions():
    # pi = (1/4, 3/4). psi of the actions is ((1, 0), (0, 1)) for both critics, and 2 and 3 times that for the targets.
    actor = MLP([jnp.zeros((3, 2))], [jnp.array([0.0, np.log(3.0)])])
    eye = [1.0, 0.0, 0.0, 1.0]
    critics, targets = (stack(constant(x), constant(y)) for x, y in ((eye, eye), (np.dot(2, eye), np.dot(3, eye))))
    settings = LossSettings(Categorical(2), GAMMA, 0.5, 0.2)
    loss, metrics = jit(lambda: successor_loss(
        Agent(actor, critics, jnp.float32(0.0)), discrete_batch(), targets, settings, lambda codes: jnp.zeros((0, 2, 2))
    ))()  # fmt: skip
    backups = np.array([[0.6 + GAMMA * 2 * 0.25, 0.8 + GAMMA * 2 * 0.75], [1.0, 0.0]])
    played = np.array([[1.0, 0.0], [0.0, 1.0]])
    critic_loss = 2 * np.mean(np.sum((played - backups) ** 2, axis=1))
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    value = np.mean([0.25, 0.75]) + 0.5 * entropy  # task (1, 0): only action 0 has value; task (0, 1): only action 1
    assert metrics["critic_loss"] == pytest.approx(critic_loss, rel=1e-5)
    assert metrics["value"] == pytest.approx(value, rel=1e-5)
    assert loss == pytest.approx(critic_loss - value, rel=1e-5)


def test_gpi_values_are_those_of_the_best_policy():
    # psi is the code of the policy, so policy z_j has the value z_j . w.
    code_net = MLP([jnp.concatenate([jnp.zeros((1, 2)), jnp.eye(2)])], [jnp.zeros(2)])
    batch, actor = discrete_batch(), MLP([jnp.zeros((3, 1))], [jnp.zeros(1)])
    batch = batch._replace(inputs=batch.inputs.at[:, 1:].multiply(0.5))
    others = jnp.array([[[0.9, 0.0], [0.1, 0.0]], [[0.2, 0.0], [0.0, 0.6]]])
    values, _ = gpi_values(actor, stack(code_net, code_net), batch, Categorical(1), others)
    np.testing.assert_allclose(values, [0.5 * 0.9, 0.5 * 0.6], rtol=1e-6)


def test_continuous_critics_take_the_action_and_compute_one_number_per_cumulant():
    box = action_distribution(OneStep().action_space, "tanh_gaussian")
    agent = jit(lambda: new_agent(KEY, 3, box, (8,), 0.1, 2))()
    assert successor_features(agent.critics, jnp.zeros((5, 4)), 2).shape == (2, 5, 1, 2)


@pytest.fixture(scope="module")
def trained():
    """The next state is the action a in [-1, 1], phi = (a, 1 - a^2), and each of the two cumulants is a task."""
    tasks = jnp.eye(2)

    def phi(s):
        return jnp.array([s[0], 1 - s[0] ** 2])

    def sample(key, state):
        index = jax.random.randint(key, (), 0, 2)
        return Skill(tasks[index], index)

    objective = Objective(
        init=lambda key: None,
        sample=sample,
        reward=per_visit(lambda state, s, skill: phi(s) @ skill.code),
        update=lambda key, state, episodes: (state, {}),
        linear=LinearReward(
            cumulants=lambda state, episode: jax.vmap(phi)(episode.features[1:]),
            gpi_codes=lambda codes: codes[None, ::-1],
        ),
    )
    config = SACConfig(
        iterations=150, rollouts=4, gradient_steps=8, capacity=1024, warmup=16, batch_size=64, hidden=(32,),
        learning_rate=1e-2, tau=0.1, entropy_weight=0.001,
    )  # fmt: skip
    program = sac(OneStep(), objective, config, codes=tasks)

    def run(key):
        init_key, step_keys = program_keys(key, program.iterations)
        state, _ = jax.lax.scan(program.step, program.init(init_key), step_keys)
        return state, program.finish(state)

    return jit(run)(KEY)


def test_each_task_has_its_policy_and_psi_has_the_value_of_each_policy_for_each_task(trained):
    state, policy = trained
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(1), policy.codes)[:, 0]
    np.testing.assert_allclose(modes, [1.0, 0.0], atol=0.1)
    inputs = jnp.concatenate([jnp.zeros((2, 1)), policy.codes, modes[:, None]], axis=1)
    features = successor_features(state.learner.agent.params.critics, inputs, 2)[0, :, 0]
    np.testing.assert_allclose(features, [[1.0, 0.0], [0.0, 1.0]], atol=0.15)

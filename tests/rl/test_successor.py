"""SAC over successor features: its loss by hand, and that psi . w is the value of one policy at another's task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.gridworld import OneStep
from edl.envs.rollout import Skill
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.objective import Linear, Objective, per_visit
from edl.program import keys_of
from edl.rl.sac import SACConfig, sac
from edl.rl.soft import Agent, Batch, Rules, actions_of, new_agent
from edl.rl.successor import improved_values, lesser, successor_features, successor_loss
from tests.compiling import jit
from tests.probes.envs import GAMMA

KEY = jax.random.key(0)


def twice(*nets):
    return jax.tree.map(lambda *x: jnp.stack(x), *nets)


def constant(values):
    """A net that puts out the same for all inputs (s, w_1, w_2)."""
    return MLP([jnp.zeros((3, len(values)))], [jnp.asarray(values, jnp.float32)])


def test_the_lesser_features_are_those_worth_less_to_the_task():
    features = jnp.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]])
    tasks = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(lesser(features, tasks), [[0.0, 2.0], [1.0, 0.0]])


def discrete_batch():
    """Two steps under the tasks (1, 0) and (0, 1), of which the second terminates."""
    inputs = jnp.array([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])
    return Batch(
        inputs=inputs,
        next_inputs=inputs,
        actions=jnp.array([0, 1]),
        rewards=jnp.array([[0.6, 0.8], [1.0, 0.0]]),
        terminated=jnp.array([False, True]),
        noise=jnp.zeros((2, 2, 0)),
    )


def test_the_loss_by_hand_where_actions_are_discrete():
    # pi = (1/4, 3/4). psi of the actions: ((1, 0), (0, 1)) by both critics; by the targets, twice and three times that.
    actor = MLP([jnp.zeros((3, 2))], [jnp.array([0.0, np.log(3.0)])])
    eye = [1.0, 0.0, 0.0, 1.0]
    critics, targets = (twice(constant(x), constant(y)) for x, y in ((eye, eye), (np.dot(2, eye), np.dot(3, eye))))
    rules = Rules(Categorical(2), GAMMA, 0.5, 0.2)
    loss, metrics = jit(lambda: successor_loss(
        Agent(actor, critics, jnp.float32(0.0)), discrete_batch(), targets, rules, lambda codes: jnp.zeros((0, 2, 2))
    ))()  # fmt: skip
    backups = np.array([[0.6 + GAMMA * 2 * 0.25, 0.8 + GAMMA * 2 * 0.75], [1.0, 0.0]])
    played = np.array([[1.0, 0.0], [0.0, 1.0]])
    critic_loss = 2 * np.mean(np.sum((played - backups) ** 2, axis=1))
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    value = np.mean([0.25, 0.75]) + 0.5 * entropy  # task (1, 0) values action 0 alone, task (0, 1) action 1
    assert metrics["critic_loss"] == pytest.approx(critic_loss, rel=1e-5)
    assert metrics["value"] == pytest.approx(value, rel=1e-5)
    assert loss == pytest.approx(critic_loss - value, rel=1e-5)


def test_improvement_is_upon_the_best_of_the_policies():
    # psi is the code of the policy that is asked for, so that policy z_j is worth z_j . w.
    reader = MLP([jnp.concatenate([jnp.zeros((1, 2)), jnp.eye(2)])], [jnp.zeros(2)])
    batch, actor = discrete_batch(), MLP([jnp.zeros((3, 1))], [jnp.zeros(1)])
    batch = batch._replace(inputs=batch.inputs.at[:, 1:].multiply(0.5))
    others = jnp.array([[[0.9, 0.0], [0.1, 0.0]], [[0.2, 0.0], [0.0, 0.6]]])
    values, _ = improved_values(actor, twice(reader, reader), batch, Categorical(1), others)
    np.testing.assert_allclose(values, [0.5 * 0.9, 0.5 * 0.6], rtol=1e-6)


def test_continuous_critics_take_the_action_in_and_put_out_a_number_per_cumulant():
    box = actions_of(OneStep())
    agent = jit(lambda: new_agent(KEY, 3, box, (8,), 0.1, 2))()
    assert successor_features(agent.critics, jnp.zeros((5, 4)), 2).shape == (2, 5, 1, 2)


@pytest.fixture(scope="module")
def walked():
    """The next state is the action a in [-1, 1], phi = (a, 1 - a^2), and tasks are either of the two."""
    tasks = jnp.eye(2)

    def phi(s):
        return jnp.array([s[0], 1 - s[0] ** 2])

    def choose(key, state):
        index = jax.random.randint(key, (), 0, 2)
        return Skill(tasks[index], index)

    objective = Objective(
        init=lambda key: None,
        sample=choose,
        reward=per_visit(lambda state, s, skill: phi(s) @ skill.code),
        update=lambda key, state, episodes: (state, {}),
        linear=Linear(lambda state, episode: jax.vmap(phi)(episode.features[1:]), lambda codes: codes[None, ::-1]),
    )
    config = SACConfig(
        iterations=150, rollouts=4, gradient_steps=8, capacity=1024, warmup=16, batch_size=64, hidden=(32,),
        learning_rate=1e-2, tau=0.1, entropy_weight=0.001,
    )  # fmt: skip
    program = sac(OneStep(), objective, config, codes=tasks)

    def run(key):
        first, rest = keys_of(key, program.iterations)
        state, _ = jax.lax.scan(program.step, program.init(first), rest)
        return state, program.finish(state)

    return jit(run)(KEY)


def test_each_task_gets_its_policy_and_every_policy_is_valued_at_every_task(walked):
    state, policy = walked
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(1), policy.codes)[:, 0]
    np.testing.assert_allclose(modes, [1.0, 0.0], atol=0.1)
    inputs = jnp.concatenate([jnp.zeros((2, 1)), policy.codes, modes[:, None]], axis=1)
    features = successor_features(state.learner.agent.params.critics, inputs, 2)[0, :, 0]
    np.testing.assert_allclose(features, [[1.0, 0.0], [0.0, 1.0]], atol=0.15)

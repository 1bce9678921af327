"""SAC by hand, and in worlds whose values and best actions are known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.gridworld import OneStep
from edl.envs.rollout import Skill
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, identity
from edl.objective import per_visit
from edl.program import execute
from edl.rl.replay import Transition
from edl.rl.sac import SACConfig, batch_of, sac, worth
from edl.rl.soft import Rules, actions_of, evaluate, new_agent, sac_loss, soft_values, target_entropy
from tests.compiling import jit
from tests.probes.envs import GAMMA, PROBES
from tests.rl.training import CHAINS, CODES, objective_of, trained

TINY = SACConfig(
    iterations=60,
    rollouts=4,
    capacity=1024,
    warmup=16,
    batch_size=64,
    hidden=(32,),
    gamma=GAMMA,
    learning_rate=1e-2,
    tau=0.1,
    entropy_weight=0.001,
)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def chains():
    """SAC with discrete actions in every chain: one compiled program, for the worlds differ in their arrays alone."""
    rewards = [PROBES[name].reward for name in CHAINS]
    config = dataclasses.replace(TINY, iterations=30, normalise=True)

    @jit
    def go(env, index, key):
        objective = objective_of(lambda s: jax.lax.switch(index, rewards, s))
        return trained(sac, env, objective, config, key)

    def run(name):
        env = dataclasses.replace(PROBES[name].env, horizon=16)
        return go(env, CHAINS.index(name), KEY)

    return {name: run(name) for name in CHAINS}


@pytest.fixture(scope="module")
def one_step():
    probe = PROBES["policy"]
    config = dataclasses.replace(TINY, iterations=150, gradient_steps=8)
    return jit(lambda key: trained(sac, probe.env, objective_of(probe.reward), config, key))(KEY)


@pytest.mark.parametrize("name", CHAINS)
def test_finds_the_best_action_and_its_value_among_discrete_ones(name, chains):
    probe = PROBES[name]
    state, policy, _ = chains[name]
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(2), CODES)
    assert probe.best_action is None or np.all(modes == probe.best_action)
    inputs = jnp.concatenate([jnp.tile(policy.normaliser(jnp.zeros(2)), (2, 1)), CODES], axis=1)
    values = jnp.max(jnp.min(evaluate(state.learner.agent.params.critics, inputs), axis=0), axis=1)
    np.testing.assert_allclose(values, probe.value, rtol=0.05)


def test_finds_the_best_of_continuous_actions(one_step):
    _, policy, metrics = one_step
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(1), CODES)
    np.testing.assert_allclose(modes, 0.3, atol=0.05)
    assert jnp.mean(metrics["return"][-10:]) > -0.02 > -0.1 > jnp.mean(metrics["return"][:4])


def test_nothing_is_learned_before_the_warm_up_is_over(one_step):
    _, _, metrics = one_step
    np.testing.assert_array_equal(metrics["critic_loss"] == 0, np.arange(150) < 3)  # four steps an iteration
    assert metrics.keys() == {"return", "critic_loss", "value", "entropy", "alpha", "episodes"}


@pytest.mark.slow
def test_one_trace_for_two_learning_rates_and_a_seed_alone_is_the_seed_in_company():
    env, objective = OneStep(), objective_of(lambda s: s[0])
    traces = []

    @jit
    def seeds(config, keys):
        traces.append(config)
        config = dataclasses.replace(config, iterations=6)
        together = jax.vmap(lambda key: execute(sac(env, objective, config, codes=CODES), key)[0].actor)(keys)
        return together, execute(sac(env, objective, config, codes=CODES), keys[1])[0].actor

    def first_layer(learning_rate):
        together, alone = seeds(dataclasses.replace(TINY, learning_rate=learning_rate), jax.random.split(KEY, 2))
        np.testing.assert_allclose(together.weights[0][1], alone.weights[0], rtol=1e-4, atol=1e-5)
        return alone.weights[0]

    assert jnp.max(jnp.abs(first_layer(1e-2) - first_layer(1e-3))) > 1e-3
    assert len(traces) == 1


def transitions(count):
    rng = np.random.default_rng(0)
    rows = Transition(
        observations=rng.normal(size=(count, 2, 1)).astype(np.float32),
        features=rng.normal(size=(count, 2, 1)).astype(np.float32),
        action=rng.uniform(size=(count, 1)).astype(np.float32),
        reward=np.full(count, 100.0, np.float32),
        terminated=np.arange(count) == 1,
        skill=Skill(np.eye(2, dtype=np.float32)[np.arange(count) % 2], np.arange(count) % 2),
    )
    return jax.tree.map(jnp.asarray, rows)


def test_rewards_are_those_of_the_objective_as_it_is_now():
    objective = objective_of(None)._replace(reward=per_visit(lambda state, s, skill: state * s[0] + skill.index))
    rows = transitions(4)
    rewards = jit(lambda: worth(objective, 3.0, rows))()
    np.testing.assert_allclose(rewards, 3 * rows.features[:, 1, 0] + np.arange(4) % 2, rtol=1e-6)


def test_inputs_are_normalised_observations_and_the_code():
    rows, noise = transitions(4), jnp.zeros((4, 2, 1))
    batch = jit(lambda: batch_of(rows, rows.reward, noise, Normaliser(jnp.ones(1), jnp.full(1, 2.0))))()
    expected = np.concatenate([(rows.observations[:, 1] - 1) / 2, rows.skill.code], axis=1)
    np.testing.assert_allclose(batch.next_inputs, expected, rtol=1e-6)
    np.testing.assert_allclose(batch.inputs[:, 0], (rows.observations[:, 0, 0] - 1) / 2, rtol=1e-6)


@pytest.fixture(scope="module")
def hand_made():
    """An agent, a batch in which the second of three transitions terminates, targets, and rules."""
    box = actions_of(OneStep())

    @jit
    def make(keys):
        agent, other = (new_agent(key, 3, box, (8,), 0.5) for key in keys[:2])
        rows = transitions(3)
        return (
            agent,
            batch_of(rows, rows.features[:, 1, 0], jax.random.normal(keys[2], (3, 2, 1)), identity(1)),
            other.critics,
        )

    return *make(jax.random.split(KEY, 3)), Rules(box, GAMMA, 0.5, 0.2)


def by_hand(agent, critics, inputs, noise, rules):
    """V and log pi of one input."""
    action, log_prob = rules.actions.reparametrise(noise, agent.actor(inputs))
    pair = jnp.concatenate([inputs, action])
    return jnp.min(each(critics, pair)) - rules.alpha * log_prob, log_prob


def each(critics, pair):
    return jnp.stack([jax.tree.map(lambda x, i=i: x[i], critics)(pair)[0] for i in (0, 1)])


def test_the_loss_by_hand(hand_made):
    agent, batch, targets, rules = hand_made

    @jit
    def row(inputs, next_inputs, action, noise):
        following, _ = by_hand(agent, targets, next_inputs, noise[0], rules)
        value, log_prob = by_hand(agent, agent.critics, inputs, noise[1], rules)
        return following, each(agent.critics, jnp.concatenate([inputs, action])), value, log_prob

    errors, values, log_probs = [], [], []
    for i in range(3):
        following, played, value, log_prob = row(
            batch.inputs[i], batch.next_inputs[i], batch.actions[i], batch.noise[i]
        )
        backup = float(batch.rewards[i]) + (0.0 if i == 1 else GAMMA * float(following))
        errors.append(sum((float(q) - backup) ** 2 for q in played))
        values.append(float(value))
        log_probs.append(float(log_prob))
    loss, metrics = jit(sac_loss)(*hand_made)
    assert metrics["critic_loss"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert metrics["value"] == pytest.approx(np.mean(values), rel=1e-4)
    assert metrics["entropy"] == pytest.approx(-np.mean(log_probs), rel=1e-4)
    assert loss == pytest.approx(np.mean(errors) - np.mean(values), rel=1e-4)


def test_discrete_values_by_hand():
    # Two actions of probability 1/4 and 3/4; critics that say (1, 2) and (3, 1); V = 1/4 + 3/4 + alpha H.
    actor = MLP([jnp.zeros((1, 2))], [jnp.array([0.0, np.log(3.0)])])
    both = [MLP([jnp.zeros((1, 2))], [jnp.array(q)]) for q in ([1.0, 2.0], [3.0, 1.0])]
    critics = jax.tree.map(lambda *x: jnp.stack(x), *both)
    values, entropies = soft_values(
        actor, critics, jnp.zeros((1, 1)), jnp.zeros((1, 0)), Categorical(2), jnp.float32(0.5)
    )
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(entropies, [entropy], rtol=1e-5)
    np.testing.assert_allclose(values, [1.0 + 0.5 * entropy], rtol=1e-5)


def test_each_part_of_the_agent_descends_on_its_own_loss(hand_made):
    agent, batch, targets, rules = hand_made

    @jit
    def gradients(richer, keep):
        learned = rules._replace(alpha=None, keep=keep)
        return jax.grad(lambda a: sac_loss(a, batch._replace(rewards=batch.rewards + richer), targets, learned)[0])(
            agent
        )

    before, after = gradients(0.0, 0.01), gradients(5.0, 0.01)
    np.testing.assert_allclose(after.actor.weights[0], before.actor.weights[0], rtol=1e-5)
    assert np.max(np.abs(after.critics.weights[0] - before.critics.weights[0])) > 1e-3
    # Where there is more entropy than wanted alpha falls, and else it rises.
    assert before.log_alpha > 0 > gradients(0.0, 100.0).log_alpha
    fixed = jit(jax.grad(lambda a: sac_loss(a, batch, targets, rules)[0]))(agent)
    assert fixed.log_alpha == 0


def test_the_entropy_to_keep():
    assert target_entropy(actions_of(OneStep()), 1.0) == pytest.approx(np.log(2.0))  # uniform on [-1, 1]
    assert target_entropy(Categorical(5), 1.0) == pytest.approx(np.log(5.0))
    assert target_entropy(Categorical(5), 0.0) == 0


def test_refuses_siblings_and_a_buffer_that_is_too_small():
    with pytest.raises(ConfigError, match="siblings"):
        sac(OneStep(), objective_of(lambda s: s[0], siblings=2), TINY, codes=CODES)
    with pytest.raises(ConfigError, match=r"capacity=15.*16"):
        sac(OneStep(), objective_of(lambda s: s[0]), dataclasses.replace(TINY, capacity=15), codes=CODES)

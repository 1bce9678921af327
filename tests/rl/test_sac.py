"""SAC agrees with values computed by hand, and solves envs whose best actions and values are known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.gridworld import OneStep
from edl.envs.maze import maze
from edl.envs.rollout import Skill
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, identity_normaliser
from edl.objective import LinearReward, keep_skill, per_visit, unchanged
from edl.program import run_program
from edl.rl.replay import Transition, read
from edl.rl.sac import SACConfig, new_agent, new_networks, replayed_rewards, sac, to_batch
from edl.rl.sac_losses import LossSettings, critic_values, sac_loss, soft_values, target_entropy, value_network_loss
from tests.compiling import jit
from tests.probes.envs import GAMMA, PROBES
from tests.rl.training import (
    CHAINS,
    CODES,
    BatchState,
    nearest_neighbour_objective,
    nearest_neighbour_return,
    objective_of,
    trained,
)

TINY = SACConfig(
    iterations=60,
    rollouts=4,
    capacity=1024,
    warmup=16,
    batch_size=64,
    hidden=(32,),
    normalise=False,
    gamma=GAMMA,
    learning_rate=1e-2,
    tau=0.1,
    entropy_weight=0.001,
)
KEY = jax.random.key(0)
BOX = action_distribution(OneStep().action_space, "tanh_gaussian")


@pytest.fixture(scope="module")
def chains():
    """SAC with discrete actions in every chain: one compiled program, because the envs differ only in their arrays."""
    rewards = [PROBES[name].reward for name in CHAINS]
    config = dataclasses.replace(TINY, iterations=30, normalise=True)

    @jit
    def train(env, index, key):
        objective = objective_of(lambda s: jax.lax.switch(index, rewards, s))
        return trained(sac, env, objective, config, key)

    def run(name):
        env = dataclasses.replace(PROBES[name].env, horizon=16)
        return train(env, CHAINS.index(name), KEY)

    return {name: run(name) for name in CHAINS}


@pytest.fixture(scope="module")
def one_step():
    probe = PROBES["policy"]
    config = dataclasses.replace(TINY, iterations=150, gradient_steps=8)
    return jit(lambda key: trained(sac, probe.env, objective_of(probe.reward), config, key))(KEY)


@pytest.mark.parametrize("name", CHAINS)
def test_finds_the_best_discrete_action_and_its_value(name, chains):
    probe = PROBES[name]
    state, policy, _ = chains[name]
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(2), CODES)
    assert probe.best_action is None or np.all(modes == probe.best_action)
    inputs = jnp.concatenate([jnp.tile(policy.normaliser(jnp.zeros(2)), (2, 1)), CODES], axis=1)
    values = jnp.max(jnp.min(critic_values(state.learner.agent.params.critics, inputs), axis=0), axis=1)
    np.testing.assert_allclose(values, probe.value, rtol=0.05)


def test_finds_the_best_continuous_action(one_step):
    _, policy, metrics = one_step
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(1), CODES)
    np.testing.assert_allclose(modes, 0.3, atol=0.05)
    assert jnp.mean(metrics["return"][-10:]) > -0.02 > -0.1 > jnp.mean(metrics["return"][:4])


def test_there_are_no_gradient_steps_before_the_end_of_the_warm_up(one_step):
    _, _, metrics = one_step
    np.testing.assert_array_equal(metrics["critic_loss"] == 0, np.arange(150) < 3)  # four env steps per iteration
    assert metrics.keys() == {"return", "critic_loss", "value", "entropy", "alpha", "episodes"}


@pytest.mark.slow
def test_learning_rates_share_one_trace_and_a_seed_alone_equals_that_seed_in_a_batch():
    env, objective = OneStep(), objective_of(lambda s: s[0])
    traces = []

    @jit
    def seeds(config, keys):
        traces.append(config)
        config = dataclasses.replace(config, iterations=6)
        batch = jax.vmap(lambda key: run_program(sac(env, objective, config, codes=CODES), key)[0].actor)(keys)
        return batch, run_program(sac(env, objective, config, codes=CODES), keys[1])[0].actor

    def first_layer(learning_rate):
        batch, alone = seeds(dataclasses.replace(TINY, learning_rate=learning_rate), jax.random.split(KEY, 2))
        np.testing.assert_allclose(batch.weights[0][1], alone.weights[0], rtol=1e-4, atol=1e-5)
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


def test_replayed_rewards_use_the_current_state_of_the_objective():
    objective = objective_of(None)._replace(reward=per_visit(lambda state, s, skill: state * s[0] + skill.index))
    rows = transitions(4)
    rewards = jit(lambda: replayed_rewards(objective, 3.0, rows))()
    np.testing.assert_allclose(rewards, 3 * rows.features[:, 1, 0] + np.arange(4) % 2, rtol=1e-6)


def test_inputs_are_the_normalised_observation_and_the_code():
    rows, noise = transitions(4), jnp.zeros((4, 2, 1))
    batch = jit(lambda: to_batch(rows, rows.reward, noise, Normaliser(jnp.ones(1), jnp.full(1, 2.0))))()
    expected = np.concatenate([(rows.observations[:, 1] - 1) / 2, rows.skill.code], axis=1)
    np.testing.assert_allclose(batch.next_inputs, expected, rtol=1e-6)
    np.testing.assert_allclose(batch.inputs[:, 0], (rows.observations[:, 0, 0] - 1) / 2, rtol=1e-6)


@pytest.fixture(scope="module")
def hand_made():
    """An agent, a batch of three transitions (the second one terminates), target critics, and loss settings."""

    @jit
    def make(keys):
        agent, other = (new_agent(key, 3, BOX, (8,), 0.5) for key in keys[:2])
        rows = transitions(3)
        return (
            agent,
            to_batch(rows, rows.features[:, 1, 0], jax.random.normal(keys[2], (3, 2, 1)), identity_normaliser(1)),
            other.critics,
        )

    return *make(jax.random.split(KEY, 3)), LossSettings(BOX, GAMMA, 0.5, 0.2)


def by_hand(agent, critics, inputs, noise, settings):
    """V and log pi of one input."""
    action, log_prob = settings.actions.reparametrise(noise, agent.actor(inputs))
    pair = jnp.concatenate([inputs, action])
    return jnp.min(each(critics, pair)) - settings.alpha * log_prob, log_prob


def each(critics, pair):
    return jnp.stack([jax.tree.map(lambda x, i=i: x[i], critics)(pair)[0] for i in (0, 1)])


def test_the_loss_by_hand(hand_made):
    agent, batch, targets, settings = hand_made

    @jit
    def row(inputs, next_inputs, action, noise):
        following, _ = by_hand(agent, targets, next_inputs, noise[0], settings)
        value, log_prob = by_hand(agent, agent.critics, inputs, noise[1], settings)
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
    # Two actions with probabilities 1/4 and 3/4; critics with values (1, 2) and (3, 1); V = 1/4 + 3/4 + alpha H.
    actor = MLP([jnp.zeros((1, 2))], [jnp.array([0.0, np.log(3.0)])])
    both = [MLP([jnp.zeros((1, 2))], [jnp.array(q)]) for q in ([1.0, 2.0], [3.0, 1.0])]
    critics = jax.tree.map(lambda *x: jnp.stack(x), *both)
    values, entropies = soft_values(
        actor, critics, jnp.zeros((1, 1)), jnp.zeros((1, 0)), Categorical(2), jnp.float32(0.5)
    )
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(entropies, [entropy], rtol=1e-5)
    np.testing.assert_allclose(values, [1.0 + 0.5 * entropy], rtol=1e-5)


def test_each_part_of_the_agent_has_a_gradient_from_its_own_loss(hand_made):
    agent, batch, targets, settings = hand_made

    @jit
    def gradients(extra_reward, share):
        learned_alpha = settings._replace(alpha=None, target_entropy_share=share)
        richer = batch._replace(rewards=batch.rewards + extra_reward)
        return jax.grad(lambda a: sac_loss(a, richer, targets, learned_alpha)[0])(agent)

    before, after = gradients(0.0, 0.01), gradients(5.0, 0.01)
    np.testing.assert_allclose(after.actor.weights[0], before.actor.weights[0], rtol=1e-5)
    assert np.max(np.abs(after.critics.weights[0] - before.critics.weights[0])) > 1e-3
    # alpha falls if the entropy is above the target, and rises if it is below.
    assert before.log_alpha > 0 > gradients(0.0, 100.0).log_alpha
    fixed = jit(jax.grad(lambda a: sac_loss(a, batch, targets, settings)[0]))(agent)
    assert fixed.log_alpha == 0


@pytest.fixture(scope="module")
def with_value_network(hand_made):
    """The batch and the loss settings of `hand_made`, and an agent with a V of its own, and its target."""
    config = dataclasses.replace(TINY, hidden=(8,), value_network=True)
    agent, target = jit(lambda key: new_networks(key, 3, hand_made[3], config, 1))(KEY)
    return agent, hand_made[1], target, hand_made[3]


def test_the_loss_with_a_value_network_by_hand(with_value_network):
    agent, batch, target, settings = with_value_network

    @jit
    def row(inputs, next_inputs, action, noise):
        soft, _ = by_hand(agent, agent.critics, inputs, noise[0], settings)
        drawn, log_prob = settings.actions.reparametrise(noise[1], agent.actor(inputs))
        first = each(agent.critics, jnp.concatenate([inputs, drawn]))[0] - settings.alpha * log_prob
        played = each(agent.critics, jnp.concatenate([inputs, action]))
        return target(next_inputs)[0], played, agent.value(inputs)[0] - soft, first

    critic_errors, value_errors, firsts = [], [], []
    for i in range(3):
        following, played, gap, first = row(batch.inputs[i], batch.next_inputs[i], batch.actions[i], batch.noise[i])
        backup = float(batch.rewards[i]) + (0.0 if i == 1 else GAMMA * float(following))
        critic_errors.append(sum((float(q) - backup) ** 2 for q in played))
        value_errors.append(float(gap) ** 2)
        firsts.append(float(first))
    loss, metrics = jit(value_network_loss)(*with_value_network)
    assert metrics["critic_loss"] == pytest.approx(np.mean(critic_errors), rel=1e-4)
    assert metrics["value"] == pytest.approx(np.mean(firsts), rel=1e-4)
    assert loss == pytest.approx(np.mean(critic_errors) + np.mean(value_errors) - np.mean(firsts), rel=1e-4)


def test_with_a_value_network_each_network_has_its_own_loss(with_value_network):
    agent, batch, target, settings = with_value_network
    gradients = jit(jax.grad(lambda agent, batch: value_network_loss(agent, batch, target, settings)[0]))
    before, after = gradients(agent, batch), gradients(agent, batch._replace(rewards=batch.rewards + 5.0))
    np.testing.assert_allclose(after.actor.weights[0], before.actor.weights[0], rtol=1e-5)
    np.testing.assert_allclose(after.value.weights[0], before.value.weights[0], rtol=1e-5)
    assert np.max(np.abs(after.critics.weights[0] - before.critics.weights[0])) > 1e-3
    assert np.max(np.abs(before.value.weights[0])) > 0


def test_the_target_of_v_starts_at_random_and_follows_v():
    probe, config = PROBES["policy"], dataclasses.replace(TINY, iterations=150, gradient_steps=8, value_network=True)
    program = sac(probe.env, objective_of(probe.reward), config, codes=CODES)
    learner = program.init(KEY).learner
    assert jnp.max(jnp.abs(learner.targets.weights[0] - learner.agent.params.value.weights[0])) > 0.1
    state, policy, _ = jit(lambda key: trained(sac, probe.env, objective_of(probe.reward), config, key))(KEY)
    modes = jax.vmap(policy.mode, (None, 0))(jnp.zeros(1), CODES)
    np.testing.assert_allclose(modes, 0.3, atol=0.05)
    gap = jax.tree.map(lambda x, y: jnp.max(jnp.abs(x - y)), state.learner.targets, state.learner.agent.params.value)
    assert max(jax.tree.leaves(gap)) < 0.1


def test_sac_rejects_a_value_network_for_successor_features():
    linear = LinearReward(lambda state, episode: episode.features[1:], lambda codes: codes[None])
    config = dataclasses.replace(TINY, value_network=True)
    with pytest.raises(ConfigError, match=r"value_network must be false for an objective with 'linear' \(got True\)"):
        sac(OneStep(), objective_of(lambda s: s[0], linear=linear), config, codes=CODES)


def rewrite(key, state, replay, rows):
    return read(replay, rows)


def test_sac_rejects_a_value_network_that_would_ignore_other_settings():
    config = dataclasses.replace(TINY, value_network=True)
    with pytest.raises(ConfigError, match=r"value_network must be false for an objective with 'rewrite' \(got True\)"):
        sac(OneStep(), objective_of(lambda s: s[0], rewrite=rewrite), config, codes=CODES)
    config = dataclasses.replace(config, entropy_in_value=False)
    with pytest.raises(ConfigError, match=r"value_network must be false if entropy_in_value is false \(got True\)"):
        sac(OneStep(), objective_of(lambda s: s[0]), config, codes=CODES)


def test_sac_rejects_time_limits_as_ends_for_an_objective_that_decides_where_episodes_end():
    objective, config = objective_of(lambda s: s[0], rewrite=rewrite), dataclasses.replace(TINY, bootstrap=False)
    with pytest.raises(ConfigError, match=r"bootstrap must be true for an objective with 'rewrite' \(got False\)"):
        sac(OneStep(), objective, config, codes=CODES)
    sac(OneStep(), objective, TINY, codes=CODES)


def test_sac_rejects_an_objective_that_changes_replayed_steps_in_two_ways():
    objective = objective_of(lambda s: s[0], rewrite=rewrite, relabel=lambda key, state, step, later: step.skill)
    with pytest.raises(ConfigError, match=r"must set 'relabel' or 'rewrite' \(got both\)"):
        sac(OneStep(), objective, TINY, codes=CODES)
    sac(OneStep(), objective._replace(relabel=keep_skill), TINY, codes=CODES)


def test_running_moments_are_the_default():
    assert SACConfig().normalise


def test_target_entropy_by_hand():
    assert target_entropy(BOX, 1.0) == pytest.approx(np.log(2.0))  # uniform on [-1, 1]
    assert target_entropy(Categorical(5), 1.0) == pytest.approx(np.log(5.0))
    assert target_entropy(Categorical(5), 0.0) == 0


def test_sac_rejects_a_buffer_that_is_too_small():
    with pytest.raises(ConfigError, match=r"capacity must be at least 16 \(got 15\)"):
        sac(OneStep(), objective_of(lambda s: s[0]), dataclasses.replace(TINY, capacity=15), codes=CODES)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("siblings", 2),
        ("learns", "before"),
        ("privileged", lambda state, episode: episode.rival),
        ("weight", lambda state, episode: jnp.float32(0.5)),
    ],
)
def test_sac_rejects_an_objective_that_it_does_not_support(field, value):
    objective = objective_of(lambda s: s[0], **{field: value})
    with pytest.raises(ConfigError, match=rf"sac\(\) does not support the field '{field}'"):
        sac(OneStep(), objective, TINY, codes=CODES)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("relabel", lambda key, state, step, later: step.skill),
        ("linear", LinearReward(lambda state, episode: episode.features[1:], lambda codes: codes[None])),
    ],
)
def test_sac_rejects_stored_rewards_if_the_objective_needs_refreshed_ones(field, value):
    objective = objective_of(lambda s: s[0], **{field: value})
    with pytest.raises(ConfigError, match="refresh_rewards must be true"):
        sac(OneStep(), objective, dataclasses.replace(TINY, refresh_rewards=False), codes=CODES)


def test_the_reward_of_new_episodes_can_depend_on_the_whole_batch():
    env, config = maze("square", horizon=4), dataclasses.replace(TINY, iterations=3)
    _, _, metrics = jit(lambda key: trained(sac, env, nearest_neighbour_objective(), config, key))(KEY)
    assert metrics["reached"].shape == (3, 4 * 4, 2)
    expected = [nearest_neighbour_return(reached, rollouts=4) for reached in metrics["reached"]]
    np.testing.assert_allclose(metrics["return"], expected, rtol=1e-4)


def test_the_reward_of_a_minibatch_can_depend_on_the_whole_minibatch():
    rows = transitions(3)
    rows = rows._replace(features=jnp.array([[[9.0], [0.0]], [[9.0], [1.0]], [[9.0], [3.0]]]))
    rewards = jit(lambda: replayed_rewards(nearest_neighbour_objective(), BatchState(), rows))()
    np.testing.assert_allclose(rewards, [1.0, 1.0, 2.0])  # between the states reached: 0, 1 and 3


def batch_size_objective(**changes):
    """The reward is the number of episodes in the batch."""
    return objective_of(None)._replace(
        init=lambda key: jnp.float32(0.0),
        before_rewards=lambda state, episodes: jnp.float32(episodes.valid.shape[0]),
        reward=lambda state, episode: jnp.full(episode.valid.shape, state),
        **changes,
    )


@pytest.mark.parametrize(("refresh", "expected"), [(True, 8.0), (False, 4.0)])
def test_the_critics_learn_the_reward_of_the_minibatch_if_rewards_are_refreshed(refresh, expected):
    # Rollouts of one step: the reward of a new episode is 4, the refreshed one is 8, and the value is the reward.
    config = dataclasses.replace(
        TINY, rollouts=4, batch_size=8, iterations=150, gradient_steps=4, entropy_weight=0.0, refresh_rewards=refresh
    )
    _, _, metrics = jit(lambda key: trained(sac, OneStep(), batch_size_objective(), config, key))(KEY)
    np.testing.assert_array_equal(metrics["return"], 4.0)
    assert metrics["value"][-1] == pytest.approx(expected, abs=0.1)


def test_the_update_gets_the_state_of_the_new_episodes_and_not_of_a_minibatch():
    objective = batch_size_objective(update=lambda key, state, episodes: (state, {"size": state}))
    config = dataclasses.replace(TINY, iterations=6, batch_size=8)
    state, _, metrics = jit(lambda key: trained(sac, OneStep(), objective, config, key))(KEY)
    np.testing.assert_array_equal(metrics["size"], 4.0)
    assert state.objective == 4.0


def test_the_default_before_rewards_adds_nothing_to_the_program():
    def trace(before_rewards):
        program = sac(OneStep(), objective_of(lambda s: s[0], before_rewards=before_rewards), TINY, codes=CODES)
        return str(jax.make_jaxpr(program.step)(jax.eval_shape(program.init, KEY), KEY))

    assert trace(unchanged) == trace(lambda state, episodes: state)
    assert trace(unchanged) != trace(lambda state, episodes: jnp.mean(episodes.features))

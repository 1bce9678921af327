"""PPO agrees with values computed by hand, and solves envs whose best actions and values are known."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.gridworld import chain
from edl.envs.maze import maze
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, running_moments
from edl.nets.optim import new_trained
from edl.objective import LinearReward, RewardMemory, per_move
from edl.program import run_program
from edl.rl.playing import flat_observations, play_episodes
from edl.rl.ppo import (
    Agent,
    Batch,
    PPOConfig,
    PPOStart,
    PPOState,
    clip_gradients,
    continue_episodes,
    linear_schedule,
    paper_ppo,
    policy_loss,
    ppo,
    prepare_batch,
    rewards_of,
    standardise,
    update_agent,
    value_loss,
)
from tests.compiling import jit
from tests.probes.envs import GAMMA, PROBES
from tests.probes.plane import mortal, plane
from tests.rl.training import (
    CHAINS,
    CODES,
    nearest_neighbour_objective,
    nearest_neighbour_return,
    objective_of,
    trained,
)

TINY = PPOConfig(
    iterations=30,
    rollouts=32,
    minibatches=4,
    hidden=(16,),
    normalise=False,
    gamma=GAMMA,
    gae_lambda=0.95,
    learning_rate=1e-2,
    last_learning_rate=1e-2,
    entropy_weight=0.0,
)
KEY = jax.random.key(0)
SGD = optax.sgd(1.0)
AGENT = Agent(new_trained(SGD, mlp(KEY, (4, 8, 4))), new_trained(SGD, mlp(KEY, (7, 8, 1))))


@pytest.fixture(scope="module")
def chains():
    """PPO with running moments in every chain: one compiled program, because the envs differ only in their arrays."""
    rewards = [PROBES[name].reward for name in CHAINS]
    config = dataclasses.replace(TINY, normalise=True)

    @jit
    def train(env, index, key):
        objective = objective_of(lambda s: jax.lax.switch(index, rewards, s))
        return trained(ppo, env, objective, config, key)

    def run(name):
        env = dataclasses.replace(PROBES[name].env, horizon=16)
        return train(env, CHAINS.index(name), KEY)

    return {name: run(name) for name in CHAINS}


@pytest.fixture(scope="module")
def one_step():
    probe = PROBES["policy"]
    return jit(lambda key: trained(ppo, probe.env, objective_of(probe.reward), TINY, key))(KEY)


def value(state, policy, observation, code):
    return float(state.agent.critic.params(jnp.concatenate([policy.normaliser(observation), code]))[0])


@pytest.mark.parametrize("name", PROBES)
def test_finds_the_best_action_and_its_value(name, request):
    probe = PROBES[name]
    state, policy, _ = (
        request.getfixturevalue("one_step") if name == "policy" else request.getfixturevalue("chains")[name]
    )
    first = jnp.zeros(probe.env.observation_size)
    for code in CODES:
        if probe.best_action is not None:
            assert policy.mode(first, code) == pytest.approx(probe.best_action, abs=0.05)
        assert value(state, policy, first, code) == pytest.approx(probe.value, abs=0.05)


def test_metrics_are_from_the_learner_and_from_the_objective(one_step):
    _, _, metrics = one_step
    assert metrics.keys() == {"return", "policy_loss", "value_loss", "entropy", "clipped", "episodes"}
    assert all(series.shape == (TINY.iterations,) for series in metrics.values())
    assert jnp.mean(metrics["return"][-3:]) > -0.03 > -0.2 > metrics["return"][0]
    assert metrics["value_loss"][-1] < 0.1 * metrics["value_loss"][0]


def test_running_moments_are_over_the_valid_observations(chains):
    state, policy, _ = chains["credit"]
    played = TINY.iterations * TINY.rollouts * 16
    assert 3 * TINY.iterations * TINY.rollouts <= state.moments.count < played  # episodes end after three steps or more
    assert 0 < policy.normaliser.mean[0] < 3
    np.testing.assert_array_equal(policy.normaliser.mean, state.moments.mean)
    still, _, _ = chains["time_limit"]
    assert still.moments.count == played
    np.testing.assert_array_equal(still.moments.mean, 0.0)


def test_without_running_moments_observations_are_not_normalised(one_step):
    state, policy, _ = one_step
    assert state.moments.count == 0
    np.testing.assert_array_equal(policy.normaliser.mean, 0.0)
    np.testing.assert_array_equal(policy.normaliser.scale, 1.0)


@pytest.fixture(scope="module")
def siblings():
    """Six pairs of siblings in a maze: their episodes, batch, rewards, and log-probabilities computed again."""
    env = maze("square", horizon=6)
    normaliser = Normaliser(jnp.array([0.3, -0.2]), jnp.array([2.0, 0.5]))
    objective = objective_of(
        lambda s: s[0],
        siblings=2,
        privileged=lambda state, episode: jnp.append(episode.rival, 7.0),
        weight=lambda state, episode: (episode.skill.index == 0).astype(jnp.float32),
    )
    distribution = action_distribution(env.action_space)
    agent = AGENT
    state = PPOState(agent, agent.actor.params, None, running_moments(2))

    @jit
    def run(key):
        policy = SkillPolicy(agent.actor.params, normaliser, distribution, CODES)
        episodes = play_episodes(key, env, objective, None, policy, 6)
        batch, rewards, _ = prepare_batch(state, objective, episodes, policy, TINY)
        params = jax.vmap(agent.actor.params)(batch.inputs[:, :4])
        log_probs = jax.vmap(distribution.log_prob)(params, batch.actions)
        return episodes, batch, rewards, log_probs

    return run(KEY)


def test_siblings_share_only_start_and_skill(siblings):
    episodes, *_ = siblings
    assert episodes.valid.shape == (12, 6)
    first, second = (jax.tree.map(lambda x, i=i: x[i::2], episodes) for i in (0, 1))
    np.testing.assert_array_equal(first.observations[:, 0], second.observations[:, 0])
    np.testing.assert_array_equal(first.skill.code, second.skill.code)
    np.testing.assert_array_equal(first.skill.index, second.skill.index)
    assert not jnp.any(jnp.all(first.actions == second.actions, axis=(1, 2)))
    assert len(np.unique(first.observations[:, 0], axis=0)) == 6
    assert set(np.unique(first.skill.index)) == {0, 1}


def test_rival_is_the_last_state_of_the_other_sibling(siblings):
    episodes, *_ = siblings
    np.testing.assert_array_equal(episodes.rival[0::2], episodes.features[1::2, -1])
    np.testing.assert_array_equal(episodes.rival[1::2], episodes.features[0::2, -1])


def test_only_the_critic_sees_the_privileged_input(siblings):
    episodes, batch, *_ = siblings
    assert batch.inputs.shape == (72, 7)
    np.testing.assert_array_equal(batch.inputs[:, 4:6], jnp.repeat(episodes.rival, 6, axis=0))
    np.testing.assert_array_equal(batch.inputs[:, 6], 7.0)
    other = batch._replace(inputs=batch.inputs.at[:, 4:].set(0.0))
    actions = action_distribution(maze("square").action_space)
    policy = [policy_loss(AGENT.actor.params, each, actions, TINY)[0] for each in (batch, other)]
    value = [value_loss(AGENT.critic.params, each, TINY)[0] for each in (batch, other)]
    assert policy[0] == policy[1]
    assert value[0] != value[1]


def test_the_batch_has_the_inputs_that_the_actor_saw(siblings):
    episodes, batch, _, log_probs = siblings
    np.testing.assert_allclose(
        batch.inputs[:6, :2],
        (episodes.observations[0, :6] - jnp.array([0.3, -0.2])) / jnp.array([2.0, 0.5]),
        rtol=1e-6,
    )
    np.testing.assert_allclose(log_probs, batch.log_probs, rtol=1e-4, atol=1e-4)
    assert jnp.std(batch.log_probs) > 0


def test_rewards_are_for_the_state_reached(siblings):
    episodes, _, rewards, _ = siblings
    np.testing.assert_array_equal(rewards, episodes.features[:, 1:, 0])


def test_advantages_are_standardised_over_the_steps_with_weight(siblings):
    episodes, batch, *_ = siblings
    np.testing.assert_array_equal(batch.weights, jnp.repeat(episodes.skill.index == 0, 6))
    weighted = np.asarray(batch.weights) == 1
    assert np.mean(batch.advantages[weighted]) == pytest.approx(0.0, abs=1e-5)
    assert np.std(batch.advantages[weighted]) == pytest.approx(1.0, abs=1e-4)


def test_standardise_by_hand():
    x = jnp.array([[1.0, 3.0], [100.0, 5.0]])
    weights = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    scaled = standardise(x, weights)
    np.testing.assert_allclose(scaled[0], [-2 / np.sqrt(8 / 3), 0.0], atol=1e-6)
    np.testing.assert_allclose(scaled[1, 1], 2 / np.sqrt(8 / 3), rtol=1e-6)


def test_flat_observations_are_the_ones_before_each_step(siblings):
    episodes, *_ = siblings
    observations, valid = flat_observations(episodes)
    np.testing.assert_array_equal(observations.reshape(12, 6, 2), episodes.observations[:, :-1])
    assert valid.shape == (72,)


def linear(weight, bias):
    """A network without hidden layers."""
    return MLP([jnp.array(weight, jnp.float32)], [jnp.array(bias, jnp.float32)])


def two_rows(**changes):
    """The probability of action 1 is 3/4 in row 0 and 1/2 in row 1; the values are 1 and 3."""
    batch = Batch(
        inputs=jnp.array([[1.0, 1.0], [0.0, 3.0]]),
        actions=jnp.array([1, 0]),
        log_probs=jnp.log(jnp.array([0.5, 0.5])),
        advantages=jnp.array([2.0, -1.0]),
        returns=jnp.array([0.0, 5.0]),
        weights=jnp.array([1.0, 1.0]),
        entropy_scales=jnp.array([1.0, 1.0]),
    )
    return batch._replace(**changes)


ACTOR, CRITIC = linear([[0.0, np.log(3.0)]], [0.0, 0.0]), linear([[0.0], [1.0]], [0.0])
SETTINGS = PPOConfig(clip=0.2, value_weight=0.5, entropy_weight=0.1)


def losses(batch, actor=ACTOR, critic=CRITIC):
    """-L(theta), and its metrics."""
    policy, policy_metrics = policy_loss(actor, batch, Categorical(2), SETTINGS)
    value, value_metrics = value_loss(critic, batch, SETTINGS)
    return policy + value, policy_metrics | value_metrics


def entropy(*p):
    return -sum(x * np.log(x) for x in p)


@pytest.mark.parametrize(
    ("changes", "gain", "clipped"),
    [
        ({}, (1.2 * 2 + 1 * -1) / 2, 0.5),  # A > 0: rho = 1.5 is clipped to 1.2
        ({"advantages": jnp.array([-2.0, -1.0])}, (1.5 * -2 + 1 * -1) / 2, 0.5),  # A < 0: rho = 1.5 is not clipped
        (
            {"log_probs": jnp.log(jnp.array([0.75, 1.0]))},
            (1 * 2 + 0.8 * -1) / 2,
            0.5,
        ),  # rho = 1/2 is clipped to 0.8
    ],
)
def test_the_loss_by_hand(changes, gain, clipped):
    loss, metrics = losses(two_rows(**changes))
    squares, bonus = (1 + 4) / 2, (entropy(0.25, 0.75) + entropy(0.5, 0.5)) / 2
    assert loss == pytest.approx(-gain + 0.5 * squares - 0.1 * bonus, rel=1e-5)
    assert metrics["policy_loss"] == pytest.approx(-gain, rel=1e-5)
    assert metrics["value_loss"] == pytest.approx(squares, rel=1e-5)
    assert metrics["entropy"] == pytest.approx(bonus, rel=1e-5)
    assert metrics["clipped"] == clipped


def test_the_entropy_bonus_of_a_row_is_scaled():
    plain, _ = losses(two_rows())
    scaled, metrics = losses(two_rows(entropy_scales=jnp.array([1.0, 3.0])))
    assert scaled - plain == pytest.approx(-0.1 * (3 - 1) * entropy(0.5, 0.5) / 2, rel=1e-4)
    assert metrics["entropy"] == pytest.approx((entropy(0.25, 0.75) + entropy(0.5, 0.5)) / 2, rel=1e-5)


def test_rows_without_weight_have_no_gradient():
    batch = two_rows(weights=jnp.array([1.0, 0.0]))
    loss, _ = losses(batch)
    assert loss == pytest.approx(-1.2 * 2 + 0.5 * 1 - 0.1 * entropy(0.25, 0.75), rel=1e-5)
    other = batch._replace(advantages=batch.advantages.at[1].set(99.0), returns=batch.returns.at[1].set(-99.0))
    gradients = [jax.grad(lambda nets, b=b: losses(b, *nets)[0])((ACTOR, CRITIC)) for b in (batch, other)]
    assert eqx.tree_equal(*gradients)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_batch_without_weight_changes_nothing(weight):
    optimiser = optax.adam(1e-2)
    agent = Agent(new_trained(optimiser, ACTOR), new_trained(optimiser, CRITIC))
    batch = two_rows(weights=jnp.full(2, weight))
    config = dataclasses.replace(SETTINGS, epochs=2, minibatches=2)
    after, metrics = jit(lambda key: update_agent(key, agent, batch, Categorical(2), optimiser, config))(KEY)
    assert eqx.tree_equal(after.actor.params, ACTOR) == (weight == 0.0)
    assert eqx.tree_equal(after.critic.params, CRITIC) == (weight == 0.0)
    assert all(np.isfinite(x) for x in metrics.values())


@pytest.mark.parametrize(("limit", "length"), [(None, 13.0), (2.0, 2.0), (20.0, 13.0)])
def test_gradients_of_both_networks_are_clipped_as_one_vector(limit, length):
    networks = linear([[3.0, 4.0]], [0.0, 0.0]), linear([[0.0], [12.0]], [0.0])
    actor, critic = clip_gradients(networks, limit)
    np.testing.assert_allclose(actor.weights[0], np.array([[3.0, 4.0]]) * length / 13, rtol=1e-6)
    np.testing.assert_allclose(critic.weights[0], np.array([[0.0], [12.0]]) * length / 13, rtol=1e-6)


def test_without_bootstrap_a_time_limit_counts_as_a_termination():
    env, critic = chain(1, 3, terminates=False), linear(np.zeros((4, 1)), [10.0])
    objective = objective_of(lambda s: jnp.float32(1.0))
    agent = Agent(new_trained(SGD, linear(np.zeros((4, 5)), np.zeros(5))), new_trained(SGD, critic))
    state = PPOState(agent, agent.actor.params, None, running_moments(2))
    policy = SkillPolicy(
        state.agent.actor.params, Normaliser(jnp.zeros(2), jnp.ones(2)), action_distribution(env.action_space), CODES
    )

    @jit
    def returns(key, gamma):
        episodes = play_episodes(key, env, objective, None, policy, 1)
        configs = [PPOConfig(gamma=gamma, gae_lambda=1.0, bootstrap=bootstrap) for bootstrap in (True, False)]
        return [prepare_batch(state, objective, episodes, policy, config)[0].returns for config in configs]

    bootstrapped, terminal = returns(KEY, 0.5)
    np.testing.assert_allclose(bootstrapped, [1.75 + 10 / 8, 1.5 + 10 / 4, 1 + 10 / 2], rtol=1e-6)
    np.testing.assert_allclose(terminal, [1.75, 1.5, 1.0], rtol=1e-6)


def test_the_learning_rate_is_linear_in_the_gradient_step():
    config = PPOConfig(iterations=5, epochs=2, minibatches=10, learning_rate=1.0, last_learning_rate=0.2)
    rates = [linear_schedule(config)(count) for count in (0, 25, 50, 100)]
    np.testing.assert_allclose(rates, [1.0, 0.8, 0.6, 0.2])


def test_the_recipe_of_the_authors():
    recipe = paper_ppo(gamma=1.0)
    assert recipe.rollouts * 50 == 2500  # its "horizon"
    assert recipe.rollouts * 50 // recipe.minibatches == 250  # its batch
    assert recipe.iterations * recipe.rollouts * 50 == 6_250_000
    assert (recipe.learning_rate, recipe.clip, recipe.gae_lambda, recipe.gamma) == (3e-4, 0.2, 0.98, 1.0)
    assert recipe.last_learning_rate == recipe.learning_rate  # constant
    assert (recipe.epochs, recipe.hidden, recipe.value_weight, recipe.bootstrap) == (4, (128, 128), 0.5, True)
    assert (recipe.entropy_weight, recipe.adam_epsilon, recipe.max_gradient_norm) == (0.025, 1e-3, None)
    assert recipe.initialisation == "fan_in"


@pytest.mark.parametrize(("env", "normalise"), [("square", False), ("tree", True), ("bottleneck", True)])
def test_the_authors_normalise_inputs_except_in_the_square_maze(env, normalise):
    recipe = paper_ppo(env)
    assert (recipe.normalise, recipe.normalise_codes) == (normalise, True)


def test_running_moments_are_the_default():
    assert PPOConfig().normalise
    assert not PPOConfig().normalise_codes


@pytest.fixture(scope="module")
def normalised_codes():
    """PPO with siblings whose running moments include codes and antigoals: config, last state, policy, one batch."""
    env = maze("square", horizon=6)
    objective = objective_of(lambda s: s[0], siblings=2, privileged=lambda state, episode: episode.rival)
    config = dataclasses.replace(TINY, iterations=3, rollouts=8, normalise=True, normalise_codes=True, averaging=0.0)

    @jit
    def run(key):
        state, policy, _ = trained(ppo, env, objective, config, key)
        episodes = play_episodes(key, env, objective, None, policy, 4)
        batch, _, _ = prepare_batch(state, objective, episodes, policy, config)
        return state, policy, episodes, batch

    return run(KEY)


def test_running_moments_can_include_codes_and_the_privileged_input(normalised_codes):
    state, *_ = normalised_codes
    assert state.moments.mean.shape == (2 + 2 + 2,)  # the observation, the code and the antigoal
    assert state.moments.count == 3 * 8 * 2 * 6
    np.testing.assert_allclose(jnp.sum(state.moments.mean[2:4]), 1.0, rtol=1e-5)  # one-hot codes
    share = state.moments.mean[2]
    np.testing.assert_allclose(state.moments.normaliser().scale[2], np.sqrt(share * (1 - share)), rtol=1e-4)


def test_the_policy_takes_inputs_that_are_not_normalised(normalised_codes):
    state, policy, episodes, batch = normalised_codes
    scale = state.moments.normaliser()
    raw = jnp.concatenate([episodes.observations[0, 0], episodes.skill.code[0], episodes.rival[0]])
    np.testing.assert_allclose(batch.inputs[0], scale(raw), rtol=1e-5)
    np.testing.assert_array_equal(policy.normaliser.scale, 1.0)
    expected = state.agent.actor.params(batch.inputs[0, :4])
    np.testing.assert_allclose(policy(episodes.observations[0, 0], episodes.skill.code[0]), expected, atol=1e-5)
    params = jax.vmap(state.agent.actor.params)(batch.inputs[:, :4])
    log_probs = jax.vmap(policy.distribution.log_prob)(params, batch.actions)
    np.testing.assert_allclose(log_probs, batch.log_probs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("averaging", [0.0, 0.75])
def test_the_policy_has_averaged_parameters(averaging):
    config = dataclasses.replace(TINY, iterations=2, rollouts=4, averaging=averaging)
    program = ppo(maze("square", horizon=4), objective_of(lambda s: s[0]), config, codes=CODES)
    first = jit(program.init)(KEY)
    second, _ = jit(program.step)(first, KEY)
    third, _ = jit(program.step)(second, KEY)
    shares = (averaging**2, averaging * (1 - averaging), 1 - averaging)
    actors = [state.agent.actor.params for state in (first, second, third)]
    expected = jax.tree.map(lambda *x: sum(share * each for share, each in zip(shares, x, strict=True)), *actors)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), program.finish(third).actor, expected)
    assert np.abs(actors[2].weights[0] - actors[0].weights[0]).max() > 1e-4


STEPS_SO_FAR = RewardMemory(
    start=lambda state, features: jnp.float32(0.0),
    rewards=lambda state, steps, part: (steps + 1 + jnp.arange(2.0), steps + 2),
)
"""The reward is the number of the step in its episode."""


@pytest.fixture(scope="module")
def unrolled():
    """Six iterations of parts of two steps of episodes of six: the states and the parts of all iterations."""
    env = maze("square", horizon=6)
    objective = objective_of(lambda s: s[0])._replace(needs="steps", memory=STEPS_SO_FAR)
    config = dataclasses.replace(TINY, iterations=6, rollouts=16, unroll=2)

    @jit
    def run(key):
        program = ppo(env, objective, config, codes=CODES)
        state = program.init(key)
        policy, running, parts, befores = program.finish(state), state.running, [], []
        for part_key in jax.random.split(key, 6):
            befores.append(running)
            running, part = continue_episodes(part_key, env, objective, None, policy, running, 2)
            rewards, memory = jax.vmap(lambda e, r: rewards_of(objective, None, e, r))(part, running)
            running = running._replace(memory=memory)
            parts.append((running, part, rewards))
        return befores, parts

    return run(KEY)


def test_parts_follow_each_other_until_the_episode_is_over(unrolled):
    _, parts = unrolled
    for (before, earlier, _), (_, later, _) in itertools.pairwise(parts):
        over = np.asarray(before.parts_left) == 0
        joined = np.all(np.isclose(earlier.observations[:, -1], later.observations[:, 0]), axis=-1)
        np.testing.assert_array_equal(joined, ~over)
        same_skill = np.asarray(earlier.skill.index) == np.asarray(later.skill.index)
        assert same_skill[~over].all()


def test_episodes_end_at_different_times_and_after_three_parts(unrolled):
    befores, parts = unrolled
    assert set(np.asarray(befores[0].parts_left).tolist()) == {1, 2, 3}
    for running, part, _ in parts[3:]:  # the shortened first episodes are over
        ended = np.asarray(jax.vmap(lambda episode: episode.ended)(part))
        np.testing.assert_array_equal(ended, np.asarray(running.parts_left) == 0)
        assert 0 < ended.sum() < 16
        np.testing.assert_array_equal(np.asarray(running.memory), 6 - 2 * np.asarray(running.parts_left))


def test_a_reward_remembers_the_parts_before(unrolled):
    befores, parts = unrolled
    for before, (_, _, rewards) in zip(befores, parts, strict=True):
        steps = np.where(np.asarray(before.parts_left) == 0, 0, np.asarray(before.memory))
        np.testing.assert_array_equal(rewards, steps[:, None] + [1, 2])


@pytest.mark.parametrize(("unroll", "steps"), [(0, 6), (2, 2)])
def test_an_objective_learns_from_what_its_reward_remembers_and_the_return_is_per_episode(unroll, steps):
    memory = RewardMemory(
        lambda state, first: jnp.int32(0), lambda state, taken, part: (part.valid * 1.0, taken + part.length)
    )
    objective = objective_of(lambda s: s[0])._replace(
        needs="steps", memory=memory, update=lambda key, state, episodes: (state, {"steps": jnp.mean(episodes.memory)})
    )
    program = ppo(
        maze("square", horizon=6), objective, dataclasses.replace(TINY, rollouts=4, unroll=unroll), codes=CODES
    )
    _, metrics = jit(program.step)(jit(program.init)(KEY), KEY)
    assert metrics["steps"] == steps
    assert metrics["return"] == 6  # a reward of 1 in each of the six steps of an episode


def test_training_goes_on_with_given_networks_and_moments():
    env, config = (
        maze("square", horizon=6),
        dataclasses.replace(TINY, iterations=1, normalise=True, normalise_codes=True),
    )
    objective = objective_of(lambda s: s[0])
    trained_state = jit(ppo(env, objective, config, codes=CODES).init)(jax.random.key(5))
    moments = RunningMoments(jnp.float32(9.0), jnp.arange(4.0), jnp.full(4, 9.0 * 4))
    start = PPOStart(trained_state.agent.actor.params, trained_state.agent.critic.params, moments, jnp.float32(2.0))
    program = ppo(env, objective, config, codes=CODES, start=start)
    state = jit(program.init)(KEY)
    inputs = jnp.array([1.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(state.agent.critic.params(inputs), start.critic(inputs))
    expected = start.actor((inputs - jnp.arange(4.0)) / 2)
    np.testing.assert_allclose(program.finish(state)(inputs[:2], inputs[2:]), expected, atol=1e-5)
    # Twice the unit of length: half the reward, so half the value.
    np.testing.assert_allclose(start.with_reward_unit(4.0).critic(inputs), start.critic(inputs) / 2, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"ppo.hidden must be that of the policy to start from, \(\d+.*got \(7,\)"):
        ppo(env, objective, dataclasses.replace(config, hidden=(7,)), codes=CODES, start=start)
    with pytest.raises(ConfigError, match=r"normalised inputs and no siblings \(got ppo.normalise=True, .*codes=False"):
        ppo(env, objective, dataclasses.replace(config, normalise_codes=False), codes=CODES, start=start)


def test_learns_from_parts_of_episodes():
    """Two skills in a corridor, rewarded for moving to the left and to the right."""
    env = maze(layouts.parse("+-+-+-+-+-+\n|    S    |\n+-+-+-+-+-+"), horizon=12)
    move = per_move(lambda state, s, s_next, skill: (s_next - s)[0] * jnp.where(skill.index == 0, -1.0, 1.0))
    objective = objective_of(None)._replace(reward=move, needs="steps")
    config = dataclasses.replace(TINY, iterations=60, rollouts=32, unroll=3, gamma=0.9)
    _, policy, metrics = jit(lambda key: trained(ppo, env, objective, config, key))(KEY)
    means = jax.vmap(lambda code: policy.mode(jnp.zeros(2), code))(CODES)
    assert means[0, 0] < -0.5
    assert means[1, 0] > 0.5
    assert metrics["return"][-1] > metrics["return"][0] + 0.5


@pytest.mark.parametrize(
    ("changes", "unroll", "message"),
    [
        ({"needs": "steps"}, 5, "unroll must divide the 12 steps"),
        ({}, 4, "needs whole episodes"),
        ({"needs": "steps", "siblings": 2}, 4, "needs whole episodes"),
    ],
)
def test_parts_of_episodes_that_ppo_cannot_serve_are_rejected(changes, unroll, message):
    config = dataclasses.replace(TINY, unroll=unroll)
    with pytest.raises(ConfigError, match=message):
        ppo(maze("square", horizon=12), objective_of(None)._replace(**changes), config, codes=CODES)


def counting_objective(learns):
    """The state is the number of updates, which is also the reward, and the episodes of update and of the rewards."""
    ends = jnp.zeros((4, 2))

    def update(key, state, episodes):
        return (state[0] + 1, episodes.features[:, -1], state[2]), {"updates": state[0] + 1}

    return objective_of(None)._replace(
        init=lambda key: (jnp.float32(0.0), ends, ends),
        reward=lambda state, episode: jnp.full(episode.valid.shape, state[0]),
        update=update,
        before_rewards=lambda state, episodes: (state[0], state[1], episodes.features[:, -1]),
        learns=learns,
    )


@pytest.mark.parametrize(
    ("learns", "rewards", "same_episodes", "steps"),
    [("after", [0, 1, 2], True, 20), ("before", [1, 2, 3], True, 20), ("separately", [1, 2, 3], False, 40)],
)
def test_the_objective_learns_after_or_before_the_rewards_or_from_its_own_episodes(
    learns, rewards, same_episodes, steps
):
    env, config = maze("square", horizon=5), dataclasses.replace(TINY, iterations=3, rollouts=4)
    state, _, metrics = jit(lambda key: trained(ppo, env, counting_objective(learns), config, key))(KEY)
    np.testing.assert_array_equal(metrics["return"], 5 * np.array(rewards))
    np.testing.assert_array_equal(metrics["updates"], [1, 2, 3])
    _, learned_from, rewarded = state.objective
    assert np.array_equal(learned_from, rewarded) == same_episodes
    assert ppo(env, counting_objective(learns), config, codes=CODES).env_steps == steps


def test_networks_can_start_like_those_of_pytorch():
    config = dataclasses.replace(TINY, hidden=(64,), initialisation="fan_in")
    agent = ppo(maze("square"), objective_of(lambda s: s[0]), config, codes=CODES).init(KEY).agent
    for net in (agent.actor.params, agent.critic.params):
        assert 0.1 < jnp.max(jnp.abs(net.weights[-1])) <= 1 / 8  # 1 / sqrt(64); xavier scales the actor's by 0.01
        assert jnp.all(net.biases[0] != 0)


def test_a_reward_can_depend_on_the_whole_batch():
    env, config = maze("square", horizon=4), dataclasses.replace(TINY, iterations=3, rollouts=8)
    _, _, metrics = jit(lambda key: trained(ppo, env, nearest_neighbour_objective(), config, key))(KEY)
    assert metrics["reached"].shape == (3, 8 * 4, 2)
    expected = [nearest_neighbour_return(reached, rollouts=8) for reached in metrics["reached"]]
    np.testing.assert_allclose(metrics["return"], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("relabel", lambda key, state, step, later: step.skill),
        ("linear", LinearReward(lambda state, episode: episode.features[1:], lambda codes: codes[None])),
    ],
)
def test_ppo_rejects_an_objective_that_it_does_not_support(field, value):
    objective = objective_of(lambda s: s[0], **{field: value})
    with pytest.raises(ConfigError, match=rf"ppo\(\) does not support the field '{field}'"):
        ppo(maze("square"), objective, TINY, codes=CODES)


def test_what_an_env_returns_after_the_end_does_not_reach_the_networks():
    """Most episodes end early, and all later states are NaN."""
    env, config = mortal(plane(1, 8), end=1.0), PPOConfig(iterations=3, rollouts=8, minibatches=2, hidden=(8,))
    objective = objective_of(lambda s: s[0])
    policy, metrics = jit(lambda key: run_program(ppo(env, objective, config, codes=CODES), key))(jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((policy.actor, policy.normaliser, metrics)))

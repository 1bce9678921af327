"""State Marginal Matching: its reward by hand, sampling from its experience, and its VAE as a density."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import Experience
from edl.envs.gridworld import OneStep
from edl.envs.maze import maze
from edl.envs.rollout import Skill
from edl.explore.density_vae import VAEConfig, VAEDensity, init_vae, update_vae
from edl.explore.region import parse_region
from edl.explore.smm import (
    SMMConfig,
    SMMState,
    VisitedStates,
    fit_densities,
    new_density,
    policy_log_density,
    sample_experience,
    smm,
    smm_objective,
    smm_reward,
)
from edl.program import program_keys
from edl.rl.replay import Transition, as_episode
from tests.compiling import jit

KEY = jax.random.key(0)
TINY = SMMConfig(
    iterations=5,
    rollouts=2,
    policies=3,
    hidden=(16,),
    batch_size=32,
    warmup=32,
    capacity=64,
    num_samples=50,
    vae=VAEConfig(code_size=4, hidden=(16,)),
)


def perceptron(net, x):
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0.0)
    return x @ net.weights[-1] + net.biases[-1]


def skill_of(index, policies=3):
    return Skill(jax.nn.one_hot(index, policies), jnp.int32(index))


def reward_of(config, state, s, index):
    """The reward for reaching ``s``, computed on a transition as in SAC."""
    two = jnp.stack([jnp.zeros(2), s])
    skill = skill_of(index)
    step = Transition(two, two, jnp.zeros(2), jnp.float32(0.0), jnp.bool_(False), skill)
    objective = smm_objective(maze("square"), config)
    return float(jit(lambda: objective.reward(state, as_episode(step)))()[0])


@pytest.mark.parametrize(("reference_sign", "squared_error"), [(False, False), (True, False), (False, True)])
def test_the_reward_by_hand(reference_sign, squared_error):
    vae = dataclasses.replace(TINY.vae, squared_error=squared_error)
    config = dataclasses.replace(
        TINY, reference_sign=reference_sign, density_weight=0.7, discriminator_weight=0.3, vae=vae
    )
    state = jit(smm_objective(maze("square"), config).init)(KEY)
    s, z = np.array([1.5, -2.0], np.float32), 2
    state = jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x), state)
    vae, classifier = state.models.density.params.vae, state.models.discriminator.params

    pair = np.array([*s, 0.0, 0.0, 1.0], np.float32)  # the VAE models the pair (s, z)
    mean, log_variance = np.split(perceptron(vae.encoder, pair), 2)
    error = np.sum((pair - perceptron(vae.decoder, mean)) ** 2)
    divergence = 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
    negative_log_density = error if squared_error else 0.5 * error + 0.1 * divergence
    logits = perceptron(classifier, s)
    posterior = (np.exp(logits) / np.sum(np.exp(logits)))[z]
    distinctness = (-np.log(posterior) if reference_sign else np.log(posterior)) - np.log(1 / 3)
    expected = float(0.7 * negative_log_density + 0.3 * distinctness)
    assert reward_of(config, state, s, z) == pytest.approx(expected, rel=1e-4)


def test_with_exact_models_the_reward_is_the_novelty_for_the_mixture():
    # Two policies with states in three cells of unit volume, q_z(s) by row, p(z) = 1/2.
    by_policy = np.array([[0.6, 0.3, 0.1], [0.05, 0.15, 0.8]])
    mixture = by_policy.mean(axis=0)
    posterior = 0.5 * by_policy / mixture
    config = SMMConfig(policies=2, density_weight=1.0, discriminator_weight=1.0)
    rewards = jax.vmap(jax.vmap(lambda q, p: smm_reward(q, p, config)))(np.log(by_policy), np.log(posterior))
    np.testing.assert_allclose(rewards, np.broadcast_to(-np.log(mixture), (2, 3)), rtol=1e-5)


@pytest.mark.parametrize("name", ["histogram", "kde", "knn"])
def test_the_density_of_a_policy_counts_only_its_own_visits(name):
    # Policy 0 was near (-2, 0), policy 1 near (2, 0), and policy 2 nowhere: it gets the density of all states.
    config, own = dataclasses.replace(TINY, density=name), jnp.arange(1000) % 2
    noise = 0.3 * jax.random.normal(KEY, (1000, 2))
    visited = VisitedStates(noise.at[:, 0].add(jnp.where(own == 0, -2.0, 2.0)), own)

    @jit
    def mean_log_density(index):
        density = fit_densities(KEY, visited, config).params
        log_densities = jax.vmap(lambda s: policy_log_density(density, s, skill_of(index), config))
        return jnp.mean(log_densities(visited.states[::2]))

    at_home, abroad, of_all = (float(mean_log_density(index)) for index in range(3))
    assert at_home > of_all > abroad + 2
    assert abroad >= config.min_log_density
    assert name != "knn" or at_home == pytest.approx(of_all + np.log(2), abs=0.1)  # half of all states


@pytest.mark.parametrize(("squared_error", "weight"), [(False, 0.5), (True, 1 / 3)])
def test_the_loss_of_the_vae_by_hand(squared_error, weight):
    config = VAEConfig(code_size=2, hidden=(4,), beta=0.5, squared_error=squared_error)
    model = init_vae(KEY, 3, config).params
    x, noise = np.array([1.0, -2.0, 0.5], np.float32), np.array([0.3, -1.0], np.float32)
    vae = jax.tree.map(np.asarray, model.vae)
    mean, log_variance = np.split(perceptron(vae.encoder, x), 2)
    error = np.sum((x - perceptron(vae.decoder, mean + np.exp(0.5 * log_variance) * noise)) ** 2)
    divergence = 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
    value, reconstruction = model.loss(jnp.asarray(x), jnp.asarray(noise))
    assert value == pytest.approx(float(weight * error + 0.5 * divergence), rel=1e-4)
    assert reconstruction == pytest.approx(float(error), rel=1e-4)


@pytest.mark.parametrize(
    ("env", "density_weight", "entropy_weight"), [("square", 0.05, 1.0), ("tree", 1.0, 0.1), ("bottleneck", 1.0, 0.1)]
)
def test_the_recipe_of_the_authors(env, density_weight, entropy_weight):
    recipe = SMMConfig.paper(env)
    assert (recipe.density_weight, recipe.discriminator_weight) == (density_weight, 1.0)
    assert (recipe.entropy_weight, recipe.policies, recipe.reference_sign) == (entropy_weight, 4, False)
    assert recipe.iterations * recipe.rollouts * 50 == recipe.capacity == 50_000
    assert (recipe.learning_rate, recipe.discriminator_learning_rate, recipe.adam_epsilon) == (1e-3, 1e-3, 1e-3)
    assert (recipe.gamma, recipe.tau, recipe.batch_size, recipe.update_every) == (0.99, 0.005, 128, 1)
    assert (recipe.hidden, recipe.initialisation, recipe.warmup) == ((128, 128, 128), "fan_in", 1000)
    assert (recipe.normalise, recipe.value_network, recipe.refresh_rewards) == (False, True, False)
    vae = recipe.vae
    assert (vae.code_size, vae.hidden, vae.beta, vae.learning_rate) == (64, (128, 128, 128), 0.5, 1e-2)
    assert (vae.adam_epsilon, vae.squared_error) == (1e-3, True)
    density = jax.eval_shape(lambda: new_density(KEY, 2, recipe)).params
    assert [w.shape[0] for w in density.vae.encoder.weights] == [2 + 4, 128, 128, 128]
    state = jax.eval_shape(smm(maze("square"), recipe).init, KEY)
    assert [w.shape[0] for w in state.learner.targets.weights] == [2 + 4, 128, 128, 128]  # V has a network of its own


def test_with_the_recipe_of_the_authors_rewards_are_those_of_the_time_of_play():
    recipe = dataclasses.replace(
        SMMConfig.paper("square"), iterations=3, warmup=20, batch_size=16, hidden=(8,), vae=TINY.vae, num_samples=10
    )
    program = smm(maze("square", horizon=10), recipe)

    @jit
    def go(key):
        first, rest = program_keys(key, 3)
        untrained = program.init(first)
        return untrained, jax.lax.scan(program.step, untrained, rest)[0]

    untrained, trained = go(KEY)
    rows = jax.tree.map(lambda x: x[:20], trained.replay.rows)  # two episodes: the models are first trained after them
    objective = smm_objective(maze("square"), recipe)

    @jit
    def rewards(state):
        return jax.vmap(lambda row: objective.reward(state.objective, as_episode(row))[0])(rows)

    np.testing.assert_allclose(rows.reward, rewards(untrained), rtol=1e-4, atol=1e-5)
    assert np.max(np.abs(rows.reward - rewards(trained))) > 1e-3


def test_the_density_is_higher_on_the_data_than_off_it():
    config = VAEConfig(code_size=4, hidden=(32, 32))
    angles = jax.random.uniform(KEY, (512,), maxval=jnp.pi)
    ring = 3 * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    @jit
    def fit(key):
        first, rest = jax.random.split(key)
        density, keys = init_vae(first, 2, config), jax.random.split(rest, 300)
        return density, jax.lax.scan(lambda q, key: update_vae(key, q, ring, config), density, keys)

    before, (after, metrics) = fit(KEY)
    assert metrics["density_loss"][-1] < 0.3 * metrics["density_loss"][0]
    assert after.params.beta == before.params.beta == np.float32(config.beta)
    on, off = (float(jnp.mean(jax.vmap(after.params.log_prob)(x))) for x in (ring, ring * jnp.array([1.0, -1.0])))
    assert on > off + 0.5


def test_samples_of_the_experience_are_uniform_over_the_steps_played():
    paths = jnp.arange(4.0)[:, None, None] * 10 + jnp.arange(4.0)[None, :, None]
    experience = Experience(paths=paths, actions=jnp.zeros((4, 3, 1)), lengths=jnp.array([3, 1, 2, 0]))
    state = SMMState(KEY, None, experience, jnp.array([5, 6, 7, 8]), jnp.int32(3))
    states, policy = jit(lambda: sample_experience(KEY, state, (6000,)))()
    places, counts = np.unique(states[:, 0], return_counts=True)
    np.testing.assert_array_equal(places, [1, 2, 3, 11, 21, 22])  # no start states and no padding
    assert np.all(np.abs(counts - 1000) < 150)
    np.testing.assert_array_equal(policy, 5 + states[:, 0] // 10)


@pytest.fixture(scope="module")
def explored():
    """The final state of a short exploration, its `States` and its metrics."""
    program = smm(maze("square", horizon=10), dataclasses.replace(TINY, region=parse_region("y < 0.2", 2)))

    @jit
    def go(key):
        first, rest = program_keys(key, program.iterations)
        state, metrics = jax.lax.scan(program.step, program.init(first), rest)
        return state, program.finish(state), metrics

    return go(KEY)


def test_every_episode_is_recorded_with_the_policy_that_played_it(explored):
    state, states, _ = explored
    smm_state = state.objective
    assert int(smm_state.episodes) == 10
    np.testing.assert_array_equal(states.experience.lengths, 10)
    assert states.experience.paths.shape == (10, 11, 2)
    # The replay buffer holds the last 64 of 100 steps, in a ring, with the same skills.
    assert int(state.replay.size) == 64
    last = states.experience.paths[-1, -2:]
    row = int(state.replay.cursor) - 1
    np.testing.assert_array_equal(state.replay.rows.features[row], last)
    assert state.replay.rows.skill.index[row] == smm_state.policy[-1]


def test_samples_are_visited_states_within_the_region(explored):
    _, states, _ = explored
    visited = {tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 2)}
    assert states.samples.shape == (50, 2)
    assert {tuple(s) for s in np.asarray(states.samples)} <= visited
    assert np.all(np.asarray(states.samples)[:, 1] < 0.2)


def test_everything_learns_and_metrics_are_finite(explored):
    state, _, metrics = explored
    assert {"return", "critic_loss", "density_loss", "discriminator_loss"} <= metrics.keys()
    assert all(np.all(np.isfinite(series)) for series in metrics.values())
    for trained in (state.learner.agent, *state.objective.models):
        counts = [x for x in jax.tree.leaves(trained.opt_state) if x.dtype == jnp.int32]
        assert [int(count) for count in counts] == [80]  # 100 steps, and none in the first 20: the warm-up takes 32
    assert isinstance(state.objective.models.density.params, VAEDensity)


@pytest.mark.parametrize("name", ["histogram", "kde", "knn"])
def test_other_densities_reward_states_that_were_not_visited(name):
    config = dataclasses.replace(TINY, density=name, fitted_to=4096, discriminator_weight=0.0)
    state = jit(smm_objective(maze("square"), config).init)(KEY)  # fitted to a normal distribution
    near, far = (reward_of(config, state, jnp.array([x, 0.0]), 0) for x in (0.1, 6.0))
    assert np.isfinite(far)
    assert far > near + 1


def test_works_for_envs_of_any_size():
    assert jax.eval_shape(lambda: new_density(KEY, 7, TINY)).params.vae.encoder.weights[0].shape == (7 + 3, 16)
    program = smm(OneStep(), dataclasses.replace(TINY, capacity=32))
    assert (program.iterations, program.env_steps) == (5, 2)
    assert jax.eval_shape(program.finish, jax.eval_shape(program.init, KEY)).samples.shape == (50, 1)

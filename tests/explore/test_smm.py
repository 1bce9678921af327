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
from edl.explore.smm import SMMConfig, SMMState, new_density, sample_experience, smm, smm_objective
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
    capacity=64,
    num_samples=50,
    vae=VAEConfig(code_size=4, hidden=(16,)),
)


def perceptron(net, x):
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0.0)
    return x @ net.weights[-1] + net.biases[-1]


def reward_of(config, state, s, index):
    """The reward for reaching ``s``, computed on a transition as in SAC."""
    two = jnp.stack([jnp.zeros(2), s])
    skill = Skill(jax.nn.one_hot(index, 3), jnp.int32(index))
    step = Transition(two, two, jnp.zeros(2), jnp.float32(0.0), jnp.bool_(False), skill)
    objective = smm_objective(maze("square"), config)
    return float(jit(lambda: objective.reward(state, as_episode(step)))()[0])


@pytest.mark.parametrize("reference_sign", [False, True])
def test_the_reward_by_hand(reference_sign):
    config = dataclasses.replace(TINY, reference_sign=reference_sign, density_weight=0.7, discriminator_weight=0.3)
    state = jit(smm_objective(maze("square"), config).init)(KEY)
    s, z = np.array([1.5, -2.0], np.float32), 2
    state = jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x), state)
    vae, classifier = state.models.density.params.vae, state.models.discriminator.params

    mean, log_variance = np.split(perceptron(vae.encoder, s), 2)
    error = np.sum((s - perceptron(vae.decoder, mean)) ** 2)
    divergence = 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
    negative_log_density = 0.5 * error + 0.1 * divergence
    logits = perceptron(classifier, s)
    posterior = (np.exp(logits) / np.sum(np.exp(logits)))[z]
    distinctness = (-np.log(posterior) if reference_sign else np.log(posterior)) - np.log(1 / 3)
    expected = float(0.7 * negative_log_density + 0.3 * distinctness)
    assert reward_of(config, state, s, z) == pytest.approx(expected, rel=1e-4)


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
        # SAC has 20 steps of warm-up.
        assert [int(count) for count in counts] == [80 if trained is state.learner.agent else 100]
    assert isinstance(state.objective.models.density.params, VAEDensity)


@pytest.mark.parametrize("name", ["histogram", "kde", "knn"])
def test_other_densities_reward_states_that_were_not_visited(name):
    config = dataclasses.replace(TINY, density=name, fitted_to=4096, discriminator_weight=0.0)
    state = jit(smm_objective(maze("square"), config).init)(KEY)  # fitted to a normal distribution
    near, far = (reward_of(config, state, jnp.array([x, 0.0]), 0) for x in (0.1, 6.0))
    assert np.isfinite(far)
    assert far > near + 1


def test_works_for_envs_of_any_size():
    assert jax.eval_shape(lambda: new_density(KEY, 7, TINY)).params.vae.encoder.weights[0].shape == (7, 16)
    program = smm(OneStep(), dataclasses.replace(TINY, capacity=32))
    assert (program.iterations, program.env_steps) == (5, 2)
    assert jax.eval_shape(program.finish, jax.eval_shape(program.init, KEY)).samples.shape == (50, 1)

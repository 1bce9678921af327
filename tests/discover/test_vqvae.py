"""The VQ-VAE: its loss by hand, all codes used on every seed, dead codes revived, early stopping."""

import dataclasses

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.discover import skill_report
from edl.discover.kmeans import kmeans_centroids, quantisation_error
from edl.discover.vqvae import METRIC_NAMES, VQVAE, LossWeights, VQVAEConfig, loss, train, vqvae
from edl.envs.maze import maze
from edl.nets.mlp import MLP
from edl.program import program_keys, run_program

SEEDS = 10
TUNED = VQVAEConfig(gradient_steps=400)
"""The default with fewer gradient steps: seeds stop after 200 to 350 steps."""


def linear(weight, bias):
    return MLP([jnp.asarray(weight)], [jnp.asarray(bias)])


@pytest.fixture(scope="module")
def tiny():
    """z_e = 2 x, D(z) = z + 1, codes at 0 and 5."""
    return VQVAE(linear([[2.0]], [0.0]), linear([[1.0]], [1.0]), jnp.array([[0.0], [5.0]]))


def weights(codebook=1.0, dimensions=1.0):
    return LossWeights(jnp.array([dimensions]), jnp.float32(codebook), jnp.float32(0.25))


def test_loss_by_hand(tiny):
    # x = 1: z_e = 2, e = 0, D(e) = 1, so 0 + 4 + 0.25 * 4. x = 2: z_e = 4, e = 5, D(e) = 6, so 16 + 1 + 0.25.
    x, all_rows = jnp.array([[1.0], [2.0]]), jnp.ones(2, bool)
    value, _ = loss(tiny, x, all_rows, weights())
    np.testing.assert_allclose(value, (5.0 + 17.25) / 2)
    # In raw units, with a standard deviation of 3, the error 16 of the second row is 144. The other terms stay.
    raw, _ = loss(tiny, x, all_rows, weights(dimensions=9.0))
    np.testing.assert_allclose(raw, (5.0 + 144.0 + 1.25) / 2)


@pytest.mark.parametrize(("raw_units", "variances"), [(False, [1.0, 1.0]), (True, [100.0, 4.0])])
def test_raw_units_weigh_a_dimension_by_its_variance(raw_units, variances):
    states = States(jnp.array([[-10.0, 1.0], [10.0, 5.0]] * 4))
    config = dataclasses.replace(VQVAEConfig.paper(), num_skills=2, raw_units=raw_units, batch_size=8)
    state = vqvae(states, config).init(jax.random.key(0))
    after = train(config, state, jnp.arange(8)[None], jnp.bool_(False))

    def expected(model):
        by_variance = LossWeights(jnp.array(variances), jnp.float32(1.0), jnp.float32(1.5))
        return loss(model, state.x, jnp.ones(8, bool), by_variance)[0]

    gradient = jax.flatten_util.ravel_pytree(jax.grad(expected)(state.trained.params))[0]
    first_moment = next(leaf for leaf in jax.tree.leaves(after.opt_state) if leaf.ndim == 1)  # of Adam, flat
    np.testing.assert_allclose(first_moment, 0.1 * gradient, rtol=1e-3, atol=1e-5)


def test_loss_of_rows_that_are_not_quantised_by_hand(tiny):
    # Decoded from z_e: D(2) = 3, so (1 - 3)^2, and D(4) = 5, so (2 - 5)^2.
    x, no_rows = jnp.array([[1.0], [2.0]]), jnp.zeros(2, bool)
    np.testing.assert_allclose(loss(tiny, x, no_rows, weights(codebook=0.0))[0], (4.0 + 9.0) / 2)
    mixed = loss(tiny, x, jnp.array([True, False]), weights(codebook=0.0))[0]
    np.testing.assert_allclose(mixed, (0.0 + 9.0) / 2)


def test_the_gradient_passes_straight_through_the_codebook(tiny):
    x, all_rows = jnp.array([[2.0]]), jnp.ones(1, bool)
    grads = jax.grad(lambda model: loss(model, x, all_rows, weights())[0])(tiny)
    # d/dz ||2 - D(z)||^2 = 8 at z = 5, d/dz_e beta (z_e - 5)^2 = -0.5 at z_e = 4, and d z_e / d weight = x.
    np.testing.assert_allclose(grads.encoder.weights[0], [[(8.0 - 0.5) * 2.0]], rtol=1e-6)
    np.testing.assert_allclose(grads.codes, [[0.0], [2.0 * (5.0 - 4.0)]], rtol=1e-6)


def discover(config, states, key):
    return run_program(vqvae(states, config), key)


def oracle(layout, num_samples=4096):
    """Samples of p(s) for every seed."""
    env, keys = maze(layout), jax.random.split(jax.random.key(0), SEEDS)
    return jax.jit(jax.vmap(lambda key: States(env.sample_states(key, num_samples))))(keys)


@pytest.fixture(scope="module", params=[pytest.param("square", marks=pytest.mark.slow), "bottleneck"])
def discovered(request):
    """Ten seeds of the default recipe, as one program."""
    states, keys = oracle(request.param), jax.random.split(jax.random.key(1), SEEDS)
    skills, metrics = jax.jit(jax.vmap(discover, in_axes=(None, 0, 0)))(TUNED, states, keys)
    return states, keys, skills, metrics


def test_every_code_is_used_on_every_seed(discovered):
    _, _, skills, metrics = discovered
    assert np.all(metrics["codes_used"][:, -1] == 10)
    assert np.all(skills.usage > 0.03)
    np.testing.assert_allclose(np.sum(skills.usage, axis=-1), 1.0, rtol=1e-4)
    assert np.all(metrics["perplexity"][:, -1] > 9.0)


def test_goals_are_spread_as_well_as_those_of_kmeans(discovered):
    states, keys, skills, _ = discovered

    def ratio(samples, normaliser, decoded, key):
        x = jax.vmap(normaliser)(samples)
        ideal = quantisation_error(x, kmeans_centroids(key, x, 10, restarts=5, steps=30))
        return quantisation_error(x, jax.vmap(normaliser)(decoded)) / ideal

    ratios = jax.jit(jax.vmap(ratio))(states.samples, skills.normaliser, skills.decoded, keys)
    assert np.all(ratios < 1.1)
    assert np.mean(ratios) < 1.05


def test_means_of_codes_decode_to_means_of_goals(discovered):
    skills = discovered[2]
    i, j = np.triu_indices(10, 1)

    def error(skills):
        middle = jax.vmap(skills.decode)((skills.codes[i] + skills.codes[j]) / 2)
        return jnp.linalg.norm(middle - (skills.decoded[i] + skills.decoded[j]) / 2, axis=-1) / jnp.linalg.norm(
            skills.normaliser.scale
        )

    assert np.mean(jax.vmap(error)(skills)) < 0.15


def test_it_stops_early_and_then_stays_unchanged(discovered):
    metrics = discovered[3]
    iterations = vqvae(States(jnp.zeros((10, 2))), TUNED).iterations
    stop = np.argmax(metrics["done"], axis=-1)
    assert np.all(metrics["done"].sum(axis=-1) == iterations - stop)  # once done, always done
    assert np.mean(metrics["done"][:, -1]) > 0.5
    for seed, at in enumerate(stop):
        assert at == 0 or np.all(metrics["loss"][seed, at:] == metrics["loss"][seed, at])


@pytest.mark.slow
def test_a_seed_alone_equals_that_seed_among_many(discovered):
    states, keys, together, metrics = discovered
    alone, alone_metrics = jax.jit(discover)(TUNED, States(states.samples[3]), keys[3])
    np.testing.assert_allclose(alone.decoded, together.decoded[3], atol=0.02)
    np.testing.assert_allclose(alone_metrics["loss"], metrics["loss"][3], rtol=0.02)


def test_snapped_goals_are_states_and_the_report_says_how_far_they_moved(discovered):
    states, _, skills, _ = discovered
    for seed, samples in enumerate(np.asarray(states.samples)):
        one = jax.tree.map(lambda x: x[seed], skills)  # noqa: B023
        report = skill_report(one, samples)
        assert (report["codes_used"], report["dead_codes"]) == (10, 0)
        assert report["goal_offset"] < 0.6
        assert (np.asarray(one.goals)[:, None] == samples).all(axis=-1).any(axis=-1).all()


@pytest.fixture(scope="module")
def room():
    return States(jax.random.uniform(jax.random.key(5), (1024, 2), maxval=4.0))


@pytest.mark.parametrize(("revive", "used"), [(False, 1), (True, 8)])
def test_dead_codes_are_revived(room, revive, used):
    config = dataclasses.replace(
        VQVAEConfig.paper(), num_skills=8, revive_codes=revive, gradient_steps=600, learning_rate=1e-3
    )
    program = vqvae(room, config)
    first, rest = program_keys(jax.random.key(0), program.iterations)
    state = program.init(first)
    model = state.trained.params
    far = VQVAE(model.encoder, model.decoder, model.codes.at[1:].add(1000.0))
    state = state._replace(trained=state.trained._replace(params=far))
    state, metrics = jax.jit(lambda state: jax.lax.scan(program.step, state, rest))(state)
    assert metrics["codes_used"][-1] == used
    assert (metrics["revived"][0] > 0) == revive
    assert np.sum(program.finish(state).usage > 0.01) == used


def test_the_recipe_of_the_authors():
    config = VQVAEConfig.paper()
    assert (config.code_size, config.hidden_size, config.hidden_layers) == (16, 128, 2)
    assert (config.batch_size, config.num_samples, config.gradient_steps) == (256, 4096, 50_000)
    assert (config.learning_rate, config.commitment, config.quantised_share) == (2e-4, 1.5, 1.0)
    assert (config.raw_units, config.kmeans_init, config.revive_codes, config.snap_goals) == (True, False, False, False)
    state = vqvae(States(jnp.ones((5000, 3))), config).init(jax.random.key(0))
    assert state.x.shape == (4096, 3)
    assert [w.shape for w in state.trained.params.encoder.weights] == [(3, 128), (128, 128), (128, 16)]
    assert 0.09 < np.abs(state.trained.params.codes).max() <= 0.1


def test_metrics_have_the_same_names_at_every_step(room):
    program = vqvae(room, VQVAEConfig())
    state = jax.eval_shape(program.init, jax.random.key(0))
    after, metrics = jax.eval_shape(program.step, state, jax.random.key(0))
    assert set(metrics) == set(METRIC_NAMES)
    assert all(value.shape == () and value.dtype == jnp.float32 for value in metrics.values())
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_one_trace_for_two_learning_rates(room):
    traces = 0

    def run(config, key):
        nonlocal traces
        traces += 1
        return discover(config, room, key)[1]["loss"]

    run = jax.jit(run)
    for rate in (1e-3, 1e-4):
        run.trace(VQVAEConfig(learning_rate=rate), jax.random.key(0))
    assert traces == 1

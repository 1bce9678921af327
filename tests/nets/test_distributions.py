"""The samples, densities, entropies and means of action distributions agree with SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from edl.envs.base import Box, Discrete
from edl.nets.distributions import Beta, Categorical, TanhGaussian, action_distribution

N = 20_000
SHAPES = [(1.05, 1.05), (1.05, 50.0), (50.0, 1.05), (2.0, 5.0), (3.0, 3.0), (200.0, 300.0)]
BOX = Box(low=jnp.array([-0.95, 0.0]), high=jnp.array([0.95, 4.0]))


def params_of(alpha, beta):
    """The parameters of a Beta with these concentrations: the inverse of softplus(.) + 1.05."""
    concentrations = np.concatenate([np.atleast_1d(alpha), np.atleast_1d(beta)]) - 1.05
    return jnp.asarray(concentrations + np.log(-np.expm1(-np.maximum(concentrations, 1e-30))), jnp.float32)


def over_keys(sample, seed, count):
    """A compiled function ``params -> samples``."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(lambda params: jax.vmap(sample, (0, None))(keys, params))


@pytest.fixture(scope="module")
def draws():
    """Samples on [0, 1], one column per entry of SHAPES."""
    policy = Beta(jnp.zeros(len(SHAPES)), jnp.ones(len(SHAPES)), 2 * len(SHAPES))
    return np.asarray(over_keys(policy.sample, 0, N)(params_of(*zip(*SHAPES, strict=True))), np.float64)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_beta_samples_agree_with_scipy(draws, shape):
    column, exact = draws[:, SHAPES.index(shape)], stats.beta(*shape)
    assert stats.kstest(column, exact.cdf).pvalue > 1e-3
    assert column.mean() == pytest.approx(exact.mean(), abs=4 * exact.std() / np.sqrt(N))
    assert column.var() == pytest.approx(exact.var(), rel=0.06)
    assert stats.skew(column) == pytest.approx(exact.stats("s").item(), abs=0.15)


def test_beta_samples_of_the_dimensions_are_independent(draws):
    correlations = np.corrcoef(draws, rowvar=False) - np.eye(len(SHAPES))
    assert np.abs(correlations).max() < 0.04


def test_a_beta_policy_has_the_concentrations_of_its_parameters():
    alpha, beta = Beta(BOX.low, BOX.high, 4).concentrations(params_of([2.0, 1.05], [5.0, 50.0]))
    np.testing.assert_allclose(alpha, [2.0, 1.05], rtol=1e-5)
    np.testing.assert_allclose(beta, [5.0, 50.0], rtol=1e-5)


def test_beta_log_prob_agrees_with_scipy_on_the_action_range():
    policy = action_distribution(BOX)
    params = params_of([2.0, 30.0], [5.0, 1.5])
    actions = np.random.default_rng(0).uniform([-0.94, 0.02], [0.94, 3.98], (50, 2)).astype(np.float32)
    exact = sum(
        stats.beta(a, b, loc=float(low), scale=float(high - low)).logpdf(column.astype(np.float64))
        for a, b, low, high, column in zip((2.0, 30.0), (5.0, 1.5), *BOX, actions.T, strict=True)
    )
    log_prob = jax.jit(jax.vmap(policy.log_prob, (None, 0)))
    np.testing.assert_allclose(log_prob(params, actions), exact, rtol=1e-4, atol=1e-4)


def test_beta_entropy_agrees_with_scipy():
    entropy = jax.jit(jax.vmap(action_distribution(Box(low=-jnp.ones(1), high=jnp.ones(1))).entropy))
    exact = [stats.beta(*shape).entropy() for shape in SHAPES]
    np.testing.assert_allclose(entropy(jnp.stack([params_of(*shape) for shape in SHAPES])), exact, atol=1e-3)


def test_entropy_is_the_mean_over_dimensions():
    policy = action_distribution(BOX)
    exact = (stats.beta(2.0, 5.0).entropy() + stats.beta(30.0, 1.5).entropy()) / 2
    assert policy.entropy(params_of([2.0, 30.0], [5.0, 1.5])) == pytest.approx(exact, abs=1e-4)


def test_beta_actions_fill_the_action_range_and_have_the_right_mean():
    policy = action_distribution(BOX)
    params = params_of([1.05, 9.0], [1.05, 3.0])
    actions = over_keys(policy.sample, 1, 4000)(params)
    assert jnp.all(actions > BOX.low)
    assert jnp.all(actions < BOX.high)
    np.testing.assert_allclose(jnp.ptp(actions[:, 0]), 1.9, rtol=0.01)
    np.testing.assert_allclose(policy.mean(params), [0.0, 3.0], atol=1e-5)
    np.testing.assert_allclose(jnp.mean(actions, axis=0), policy.mean(params), atol=0.04)


@pytest.mark.parametrize("kind", ["beta", "tanh_gaussian"])
def test_log_prob_and_its_gradient_are_finite_at_the_ends_of_the_range(kind):
    policy = action_distribution(BOX, kind)
    log_prob = jax.jit(jax.value_and_grad(policy.log_prob))
    for action in BOX:
        value, gradient = log_prob(jnp.array([3.0, -3.0, 0.0, 1.0]), action)
        assert jnp.isfinite(value)
        assert jnp.all(jnp.isfinite(gradient))


def test_tanh_gaussian_density_is_the_derivative_of_its_distribution_function():
    box = Box(low=jnp.array([-2.0]), high=jnp.array([1.0]))
    policy, mean, std = action_distribution(box, "tanh_gaussian"), 0.4, 0.7
    params = jnp.array([mean, np.log(std)], jnp.float32)

    def below(action):  # P(a <= action), by the change of variables u = atanh
        return stats.norm(mean, std).cdf(np.arctanh(2 * (action + 2.0) / 3.0 - 1))

    actions = np.linspace(-1.9, 0.9, 25)
    slope = (below(actions + 1e-5) - below(actions - 1e-5)) / 2e-5
    log_prob = jax.jit(jax.vmap(policy.log_prob, (None, 0)))
    density = np.exp(log_prob(params, jnp.asarray(actions[:, None], jnp.float32)))
    np.testing.assert_allclose(density, slope, rtol=1e-3)


@pytest.mark.parametrize("kind", ["beta", "tanh_gaussian"])
def test_a_density_integrates_to_one(kind):
    box = Box(low=jnp.array([-0.95]), high=jnp.array([0.95]))
    log_prob = jax.jit(jax.vmap(action_distribution(box, kind).log_prob, (None, 0)))
    actions = np.linspace(-0.9499, 0.9499, 4001)
    for params in ([0.5, -1.0], [-0.3, -0.5]):
        values = np.exp(log_prob(jnp.array(params), jnp.asarray(actions[:, None], jnp.float32)))
        assert integrate.trapezoid(values, actions) == pytest.approx(1.0, abs=0.01)


def reparametrised(policy, seed, count):
    """A compiled function ``params -> (actions, log_probs)``."""
    return over_keys(lambda key, params: policy.reparametrise(policy.noise(key), params), seed, count)


def test_reparametrise_returns_the_log_prob_of_its_action():
    policy = action_distribution(BOX, "tanh_gaussian")
    params = jnp.array([0.3, -0.5, -0.2, -1.0])
    actions, log_probs = reparametrised(policy, 2, 500)(params)
    again = jax.jit(jax.vmap(policy.log_prob, (None, 0)))(params, actions)
    np.testing.assert_allclose(again, log_probs, atol=2e-2)
    assert jnp.all((actions > BOX.low) & (actions < BOX.high))


def test_tanh_gaussian_samples_are_differentiable():
    policy = TanhGaussian(-jnp.ones(1), jnp.ones(1), 2)
    gradient = jax.grad(lambda params: policy.sample(jax.random.key(0), params)[0])(jnp.array([0.1, -1.0]))
    assert jnp.all(gradient != 0)


def test_tanh_gaussian_entropy_is_exact_for_a_narrow_policy():
    policy, params = TanhGaussian(-jnp.ones(1), jnp.ones(1), 2), jnp.array([0.8, -4.0])
    _, log_probs = reparametrised(policy, 3, 4000)(params)
    assert policy.entropy(params) == pytest.approx(-float(jnp.mean(log_probs)), abs=0.05)
    np.testing.assert_allclose(policy.mean(params), np.tanh(0.8), rtol=1e-6)


def test_categorical_by_hand():
    policy = action_distribution(Discrete(3))
    p = np.array([0.2, 0.5, 0.3])
    params = jnp.asarray(np.log(p) + 7.0, jnp.float32)  # unnormalised logits
    np.testing.assert_allclose([policy.log_prob(params, jnp.int32(a)) for a in range(3)], np.log(p), rtol=1e-5)
    assert policy.entropy(params) == pytest.approx(stats.entropy(p), rel=1e-5)
    assert policy.mean(params) == 1
    actions = over_keys(policy.sample, 4, N)(params)
    np.testing.assert_allclose(np.bincount(actions) / N, p, atol=0.015)


def test_action_distribution_depends_on_the_action_space():
    assert isinstance(action_distribution(BOX), Beta)
    assert isinstance(action_distribution(BOX, "tanh_gaussian"), TanhGaussian)
    discrete = action_distribution(Discrete(5), "beta")
    assert isinstance(discrete, Categorical)
    assert (discrete.size, action_distribution(BOX).size) == (5, 4)


def test_very_large_concentrations_give_finite_values():
    policy, params = action_distribution(BOX), jnp.array([5e3, 1e4, 5e3, -20.0])
    actions = np.asarray(over_keys(policy.sample, 5, 100)(params))
    assert ((actions >= BOX.low) & (actions <= BOX.high)).all()
    np.testing.assert_allclose(actions[:, 0], 0.0, atol=0.05)
    log_probs = jax.jit(jax.vmap(policy.log_prob, (None, 0)))(params, actions)
    assert np.isfinite(log_probs).all()
    assert np.isfinite(policy.entropy(params))

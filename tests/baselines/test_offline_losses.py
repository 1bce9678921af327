"""The losses of HILP and FB on a few transitions, with all their gradients: by hand, and in numpy from the equations.

A gradient that a loss must not have is one that the expected gradients do not have.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.fb import FBConfig, draw_codes, fb_loss
from edl.baselines.fb import Networks as FBNetworks
from edl.baselines.hilp import HILPConfig, hilp_loss
from edl.baselines.hilp import Networks as HILPNetworks
from edl.baselines.offline import Transitions, follow
from edl.nets.distributions import TanhGaussian
from edl.nets.mlp import MLP
from tests.compiling import jit

ACTIONS = TanhGaussian(low=jnp.array([-1.0]), high=jnp.array([1.0]), size=2)


def column(*values):
    return jnp.array(values, jnp.float32)[:, None]


def linear(weight, bias) -> MLP:
    """x -> x @ weight + bias."""
    return MLP([jnp.asarray(weight, jnp.float32)], [jnp.asarray(bias, jnp.float32)])


def both(weights, biases) -> MLP:
    """Two linear networks, with a leading axis."""
    return jax.vmap(linear)(jnp.asarray(weights, jnp.float32), jnp.asarray(biases, jnp.float32))


def log_prob(u, mean, log_std):
    """log pi(tanh u) of a squashed Gaussian with actions between -1 and 1."""
    normal = -0.5 * ((u - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    return normal - np.log(1 - np.tanh(u) ** 2)


def assert_gradients(found, expected):
    for path, each in jax.tree_util.tree_leaves_with_path(expected):
        [leaf] = [leaf for other, leaf in jax.tree_util.tree_leaves_with_path(found) if other == path]
        np.testing.assert_allclose(leaf, each, rtol=2e-3, atol=2e-4, err_msg=jax.tree_util.keystr(path))


# HILP: states, skills and actions are numbers, and all networks are linear.
STEPS = Transitions(
    before=column(0, 2, 1), after=column(1, 1, 2), action=column(0.5, -0.5, 0.0), goal=column(3, 4, 0),
    reached=jnp.array([False, True, False]), other=column(0, 0, 0),
)  # fmt: skip
CODES = column(1, -1, 0.5)
HILP = HILPConfig(gamma=0.5, expectile=0.9, skill_expectile=0.8, temperature=10.0)
HILP_NETWORKS = HILPNetworks(
    phi=linear([[2.0]], [0.0]),  # V(s,g) = -2 |s - g|
    value=linear([[0.5], [1.0]], [0.2]),  # U = s / 2 + z + 0.2
    critics=both([[[1.0], [1.0], [1.0]], [[2.0], [-1.0], [0.0]]], [[0.0], [0.0]]),  # Q_1 = s + z + a, Q_2 = 2 s - z
    actor=linear([[0.3, 0.0], [0.0, 0.0]], [0.0, -0.5]),  # mean s / 3, log deviation -1/2
)
HILP_TARGETS = HILPNetworks(
    phi=linear([[3.0]], [0.0]),  # V' = -3 |s - g|
    value=linear([[9.0], [9.0]], [9.0]),  # is not used
    critics=both([[[2.0], [0.0], [2.0]], [[2.0], [3.0], [0.0]]], [[0.0], [0.0]]),  # Q'_1 = 2 s + 2 a, Q'_2 = 2 s + 3 z
    actor=linear([[9.0, 9.0], [9.0, 9.0]], [9.0, 9.0]),  # is not used
)


def test_all_terms_and_gradients_of_hilp_by_hand():
    with_gradients = jit(jax.value_and_grad(hilp_loss, has_aux=True))
    (loss, metrics), found = with_gradients(HILP_NETWORKS, HILP_TARGETS, STEPS, CODES, ACTIONS, HILP)
    before, code, action = (np.asarray(x)[:, 0] for x in (STEPS.before, CODES, STEPS.action))

    # L_phi: backups -1 + (-6) / 2, -1 as the goal is reached, -1 + (-6) / 2; less V = -6, -4 and -2.
    errors, shares = np.array([2.0, 3.0, -2.0]), np.array([0.9, 0.9, 0.1])
    map_loss = np.mean(shares * errors**2)
    slope = np.mean(2 * shares * errors * np.array([3.0, 2.0, 1.0]))  # the error grows by |s - g| per unit of phi

    # L_Q: the rewards are 2 (s' - s) z = 2, 2, 1, and U(s',z) = 1.7, -0.3, 1.7.
    backups = np.array([2.85, 1.85, 1.85])
    gaps = np.array([[1.5, 0.5, 1.5], [-1.0, 5.0, 1.5]]) - backups
    critic_loss = np.mean(np.sum(gaps**2, axis=0))
    inputs = np.stack([before, code, action])
    critic_slopes = 2 * gaps @ inputs.T / 3

    # L_U: the smaller Q' = (1, 3, 2) or (3, 1, 3.5), less U = 1.2, 0.2, 1.2.
    advantages = np.array([-0.2, 0.8, 0.8])
    shares = np.array([0.2, 0.8, 0.8])
    value_loss = np.mean(shares * advantages**2)
    value_slopes = -2 * inputs[:2] @ (shares * advantages) / 3
    value_bias = -2 * np.mean(shares * advantages)

    # L_pi: exp(10 * 0.8) is clipped at 100.
    weights = np.array([np.exp(-2.0), 100.0, 100.0])
    u, mean = np.arctanh(action), 0.3 * before
    policy_loss = -np.mean(weights * log_prob(u, mean, -0.5))
    towards = (u - mean) / np.exp(-1.0)
    wider = (u - mean) ** 2 / np.exp(-1.0) - 1
    by_output = -np.stack([weights * towards, weights * wider]) / 3

    assert metrics["map_loss"] == pytest.approx(map_loss, rel=1e-4)
    assert metrics["critic_loss"] == pytest.approx(critic_loss, rel=1e-4)
    assert metrics["advantage"] == pytest.approx(advantages.mean(), rel=1e-4)
    assert metrics["step_length"] == pytest.approx(2.0)
    assert loss == pytest.approx(map_loss + critic_loss + value_loss + policy_loss, rel=1e-4)
    expected = HILPNetworks(
        phi=linear([[slope]], [0.0]),
        value=linear(value_slopes[:, None], [value_bias]),
        critics=both(critic_slopes[:, :, None], 2 * gaps.mean(axis=1)[:, None]),
        actor=linear(inputs[:2] @ by_output.T, by_output.sum(axis=1)),
    )
    assert_gradients(found, expected)


def test_the_targets_of_hilp_have_no_gradients():
    def loss(networks, targets):
        return hilp_loss(networks, targets, STEPS, CODES, ACTIONS, HILP)[0]

    gradients = jax.grad(loss, argnums=1)(HILP_NETWORKS, HILP_TARGETS)
    assert all(float(jnp.abs(leaf).max()) == 0.0 for leaf in jax.tree.leaves(gradients))


# FB: states and actions are numbers, d = 2, and all networks are linear.
FB = FBConfig(gamma=0.5, orthonormality=0.7, entropy_weight=0.3)
MOVES = Transitions(
    before=column(0.3, -0.5, 1.2, 0.7), after=column(0.8, -1.1, 1.5, 0.1), action=column(0.5, -0.6, 0.2, -0.1),
    goal=column(9, 9, 9, 9), reached=jnp.ones(4, bool), other=column(9, 9, 9, 9),
)  # fmt: skip
SPHERE = jnp.sqrt(2) * jnp.array([[1.0, 0.0], [0.6, 0.8], [-0.8, 0.6], [0.0, -1.0]])
NOISE = jnp.array([[0.3, -0.4, 1.1, -0.9], [-0.7, 0.2, 0.5, 1.3]])[:, :, None]


def fb_networks(seed):
    """Networks of one layer. F has the inputs s, z and a, the actor s and z."""
    draw = np.random.default_rng(seed).normal
    return FBNetworks(
        forward=both(draw(size=(2, 4, 2)), draw(size=(2, 2))),
        backward=linear(draw(size=(1, 2)), draw(size=2)),
        actor=linear(0.3 * draw(size=(3, 2)), [0.1, -0.6]),
    )


FB_NETWORKS, FB_TARGETS = fb_networks(0), fb_networks(1)


def by_equations(networks, frozen, targets, config):
    """The terms L_FB, L_ortho and L_pi of the module docstring, pair by pair.

    ``frozen`` are the same networks where they have no gradient.
    """

    def apply(net, x, which=...):
        return np.concatenate(x) @ net.weights[0][which] + net.biases[0][which]

    def embed(net, state):
        found = apply(net, [state])
        return np.sqrt(2) * found / np.linalg.norm(found)

    def act(net, state, code, noise):
        mean, log_std = apply(net, [state, code])
        u = mean + np.exp(log_std) * noise
        return np.tanh(u), log_prob(u, mean, log_std)

    before, after, action = (np.asarray(x, float) for x in (MOVES.before, MOVES.after, MOVES.action))
    codes, noise, count = np.asarray(SPHERE, float), np.asarray(NOISE, float), len(before)
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    b = [embed(networks.backward, state) for state in after]
    old_b = [embed(targets.backward, state) for state in after]
    following = []
    for i in range(count):
        move, _ = act(frozen.actor, after[i], codes[i], noise[0, i])
        following.append([apply(targets.forward, [after[i], codes[i], move], k) for k in range(2)])
    measure, better = 0.0, []
    for k in range(2):
        f = [apply(networks.forward, [before[i], codes[i], action[i]], k) for i in range(count)]
        for i, j in pairs:
            candidates = [following[i][each] @ old_b[j] for each in range(2)]
            better.append(int(np.argmin(candidates)))
            measure += 0.5 * (f[i] @ b[j] - config.gamma * min(candidates)) ** 2 / len(pairs)
        measure -= np.mean([f[i] @ b[i] for i in range(count)])
    assert set(better) == {0, 1}  # each of the two targets is the smaller one for some pairs
    ortho = np.mean([(b[i] @ b[j]) ** 2 for i, j in pairs]) - 2 * np.mean([each @ each for each in b])
    gains, smaller = [], set()
    for i in range(count):
        drawn, density = act(networks.actor, before[i], codes[i], noise[1, i])
        values = [apply(frozen.forward, [before[i], codes[i], drawn], k) @ codes[i] for k in range(2)]
        smaller.add(int(np.argmin(values)))
        gains.append((min(values) / 2 - config.entropy_weight * density).item())
    assert smaller == {0, 1}
    return measure, ortho, -np.mean(gains)


def finite_differences(networks, function, step=1e-5):
    """The gradient of ``function`` at the networks, one parameter at a time, in double precision."""
    leaves, tree = jax.tree.flatten(networks)
    gradients = []
    for number, leaf in enumerate(leaves):
        slopes = np.zeros_like(leaf)
        for place in np.ndindex(*leaf.shape):
            ends = []
            for sign in (1, -1):
                moved = leaf.copy()
                moved[place] += sign * step
                ends.append(function(jax.tree.unflatten(tree, [*leaves[:number], moved, *leaves[number + 1 :]])))
            slopes[place] = (ends[0] - ends[1]) / (2 * step)
        gradients.append(slopes)
    return jax.tree.unflatten(tree, gradients)


def test_all_terms_and_gradients_of_fb_are_those_of_the_equations():
    networks, targets = jax.tree.map(lambda leaf: np.asarray(leaf, float), (FB_NETWORKS, FB_TARGETS))
    measure, ortho, policy = by_equations(networks, networks, targets, FB)
    with_gradients = jit(jax.value_and_grad(fb_loss, has_aux=True))
    (loss, metrics), found = with_gradients(FB_NETWORKS, FB_TARGETS, MOVES, SPHERE, NOISE, ACTIONS, FB)
    assert metrics["measure_loss"] == pytest.approx(measure, rel=1e-4)
    assert metrics["orthonormality"] == pytest.approx(ortho, rel=1e-4)
    assert loss == pytest.approx(measure + 0.7 * ortho + policy, rel=1e-4)

    def total(changed):
        measure, ortho, policy = by_equations(changed, networks, targets, FB)
        return measure + 0.7 * ortho + policy

    assert_gradients(found, finite_differences(networks, total))


def test_the_targets_of_fb_have_no_gradients():
    def loss(networks, targets):
        return fb_loss(networks, targets, MOVES, SPHERE, NOISE, ACTIONS, FB)[0]

    gradients = jax.grad(loss, argnums=1)(FB_NETWORKS, FB_TARGETS)
    assert all(float(jnp.abs(leaf).max()) == 0.0 for leaf in jax.tree.leaves(gradients))


def test_without_values_the_entropy_makes_the_policy_of_fb_wider():
    actor = linear(np.zeros((3, 2)), [0.0, -2.0])
    silent = FBNetworks(both(np.zeros((2, 4, 2)), np.zeros((2, 2))), FB_NETWORKS.backward, actor)
    found, _ = jax.grad(fb_loss, has_aux=True)(silent, FB_TARGETS, MOVES, SPHERE, NOISE, ACTIONS, FB)
    assert found.actor.biases[0][1] < -0.2  # descent increases the log deviation


def test_half_of_the_skills_of_fb_are_recorded_states():
    codes = draw_codes(jax.random.key(0), linear([[3.0, 4.0]], [0.0, 0.0]), jnp.ones((2000, 1)))
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), np.sqrt(2), rtol=1e-5)
    recorded = np.abs(np.asarray(codes) - np.sqrt(2) * np.array([0.6, 0.8])).max(axis=1) < 1e-4
    assert recorded.mean() == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(np.asarray(codes)[~recorded].mean(axis=0), 0.0, atol=0.15)


def test_targets_move_a_share_of_the_way():
    found = follow(linear([[1.0]], [0.0]), linear([[5.0]], [4.0]), 0.25)
    assert (float(found.weights[0][0, 0]), float(found.biases[0][0])) == (2.0, 1.0)

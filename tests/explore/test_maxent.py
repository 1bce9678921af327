"""MaxEnt: the reward is the gradient of the entropy, frozen within a round, and each round trains a new policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import gaussian_kde

from edl.config import ConfigError
from edl.envs.gridworld import gridworld
from edl.explore.maxent import MaxEntConfig, fit_novelty, joins_mixture, maxent
from edl.program import program_keys
from tests.compiling import jit

CONFIG = MaxEntConfig(iterations=9, rollouts=6, rounds=3, particles=40, num_samples=64)
ENV = gridworld(7, 7, 12)
MEMBERS = [0, 2, 5, 8]
"""Iterations whose policies are in the mixture."""


@pytest.fixture(scope="module")
def iterations():
    """The state and metrics after each iteration, and the resulting `States`."""
    program = maxent(ENV, CONFIG)
    first, rest = program_keys(jax.random.key(0), CONFIG.iterations)
    step, state, states = jit(program.step), jit(program.init)(first), []
    for key in rest:
        state, metrics = step(state, key)
        states.append((state, metrics))
    return states, jit(program.finish)(state)


def test_reward_by_hand():
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(2, 40, 2)) * [3.0, 0.2] + [1.0, 5.0]
    queries = np.concatenate([samples[0], [[1e3, 1e3]]])
    spread = samples[0].std(axis=0)  # the second member has weight 0
    density = gaussian_kde((samples[0] / spread).T).pdf((queries / spread).T)
    raw = -np.log(density + 1e-3)

    @jax.jit
    def reward(states, queries):
        return jax.vmap(fit_novelty(jax.random.key(0), states, jnp.array([[1.0], [0.0]]) * jnp.ones((2, 40)), CONFIG))(
            queries
        )

    rewards = reward(*(jnp.asarray(x, jnp.float32) for x in (samples, queries)))
    mean = raw[:-1].mean()
    np.testing.assert_allclose(rewards, (raw - mean) / (-np.log(1e-3) - mean), rtol=1e-2, atol=1e-3)
    assert np.mean(rewards[:-1]) == pytest.approx(0, abs=1e-4)
    assert rewards[-1] == pytest.approx(1, abs=1e-4)


def test_members_are_the_untrained_policy_and_the_last_of_each_round(iterations):
    states, _ = iterations
    assert [i for i in range(9) if joins_mixture(jnp.int32(i), CONFIG)] == MEMBERS
    assert [int(metrics["members"]) for _, metrics in states] == [1, 1, 2, 2, 2, 3, 3, 3, 4]
    mixture, experience = states[-1][0].objective.learned, states[-1][0].objective.experience
    assert (np.asarray(mixture.weights) == 1).all()
    for member, iteration in enumerate(MEMBERS):
        played = np.asarray(experience.paths[6 * iteration : 6 * iteration + 6, 1:]).reshape(-1, 2)
        assert {tuple(row) for row in np.asarray(mixture.states[member])} <= {tuple(row) for row in played}


def test_the_reward_is_frozen_within_a_round(iterations):
    states, _ = iterations
    rewards = [float(state.objective.learned.novelty(jnp.array([2.0, 1.0]))) for state, _ in states]
    changed = [i for i in range(1, 9) if rewards[i] != rewards[i - 1]]
    assert changed == MEMBERS[1:]


def test_a_round_starts_with_a_new_policy(iterations):
    states, _ = iterations
    last_layers = [float(jnp.max(jnp.abs(state.agent.actor.params.biases[-1]))) for state, _ in states]
    assert [i for i in range(9) if last_layers[i] == 0] == MEMBERS
    returns = [float(metrics["return"]) for _, metrics in states]
    assert returns[0] == 0
    assert all(np.isfinite(returns))


def test_p_of_s_is_the_mixture(iterations):
    _, explored = iterations
    paths = np.asarray(explored.experience.paths)
    assert explored.samples.shape == (64, 2)
    assert paths.shape == (54, 13, 2)
    assert (np.asarray(explored.experience.lengths) == 12).all()
    rows = np.concatenate([paths[6 * i : 6 * i + 6].reshape(-1, 2) for i in MEMBERS])
    assert {tuple(row) for row in np.asarray(explored.samples)} <= {tuple(row) for row in rows}
    assert len(np.unique(paths.reshape(-1, 2), axis=0)) > 25


@pytest.mark.parametrize(("iterations", "rounds"), [(9, 3), (9, 4), (100, 7), (100, 51), (5, 5), (5, 1)])
def test_every_number_of_rounds_is_honoured(iterations, rounds):
    """Rounds have the same length if that is possible, and else lengths that differ by one."""
    config = MaxEntConfig(iterations=iterations, rounds=rounds)
    ends = [i for i in range(1, iterations) if joins_mixture(jnp.int32(i), config)]
    lengths = np.diff([-1, *([0] if rounds == iterations else []), *ends])
    assert len(lengths) == rounds
    assert set(lengths) <= {iterations // rounds, -(-iterations // rounds)}
    assert ends[-1] == iterations - 1


def test_too_many_rounds_are_rejected():
    with pytest.raises(ConfigError, match=r"rounds must be at most iterations=9 \(got 20\)"):
        maxent(ENV, MaxEntConfig(iterations=9, rounds=20))

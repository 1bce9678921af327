"""Rewards that see the batch (APT, CIC, APS, BeCL): their formulas by hand, and what training achieves."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.aps import APSConfig, aps, aps_objective
from edl.baselines.apt import APTConfig, Dynamics, Steps, action_vectors, apt, dynamics_loss
from edl.baselines.batch_entropy import (
    MAX_PARTICLES,
    BatchState,
    Particles,
    entropy_reward,
    no_particles,
    particles_of,
)
from edl.baselines.becl import BeCLConfig, becl, contrast
from edl.baselines.cic import CICConfig, CICState, cic, identification, noise_contrast
from edl.baselines.model_fitting import Visits
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.mlp import MLP
from edl.nets.optim import Trained
from edl.program import run_program
from tests.baselines.probe import ENV, TINY_SAC
from tests.compiling import jit

SAME = MLP([jnp.eye(2)], [jnp.zeros(2)])
"""h(s) = s."""
SMALL = dataclasses.replace(TINY_SAC, iterations=80, objective_batch_size=1280, entropy_weight=0.02)


def one_step_episodes(reached, valid):
    """Episodes of one step from the origin."""
    features = jnp.stack([jnp.zeros_like(reached), reached], axis=1)
    flags = jnp.zeros((len(reached), 1), bool)
    skill = Skill(jnp.zeros((len(reached), 3)), jnp.zeros(len(reached), jnp.int32))
    return Episode(features, features, jnp.zeros((len(reached), 1, 2)), flags, flags, valid[:, None], skill)


def test_particle_entropy_by_hand():
    reached = jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [50.0, 50.0]])
    particles = particles_of(SAME, one_step_episodes(reached, jnp.array([True, True, True, False])))
    variance = np.var([0, 3, 0]) + np.var([0, 4, 1])
    assert particles.scale == pytest.approx(np.sqrt(variance), rel=1e-5)
    # The nearest two of (0, 0) are itself and (0, 1).
    assert entropy_reward(reached[0], particles, 2) == pytest.approx(np.log1p(0.5 / np.sqrt(variance)), rel=1e-5)
    assert entropy_reward(reached[0], particles, 4) == 0  # only three particles are real
    assert entropy_reward(reached[0], no_particles(2), 2) == 0


def test_large_batches_are_thinned():
    reached = jnp.arange(3 * MAX_PARTICLES - 1, dtype=jnp.float32)[:, None] * jnp.ones(2)
    particles = particles_of(SAME, one_step_episodes(reached, jnp.ones(len(reached), bool)))
    assert particles.points.shape == (MAX_PARTICLES, 2)
    np.testing.assert_allclose(particles.points[:3, 0], [0.0, 3.0, 6.0])


def test_the_models_of_apt_by_hand():
    inverse = MLP([jnp.vstack([-jnp.eye(2), jnp.eye(2)])], [jnp.zeros(2)])  # h(s') - h(s)
    forward = MLP([jnp.vstack([jnp.eye(2), 2 * jnp.eye(2)])], [jnp.zeros(2)])  # h(s) + 2 a
    rows = Steps(
        before=jnp.zeros((2, 2)), action=jnp.array([[1.0, 0.0], [5.0, 5.0]]), after=jnp.array([[1.0, 0.5], [9.0, 9.0]]),
        weight=jnp.array([1.0, 0.0]),
    )  # fmt: skip
    loss, metrics = dynamics_loss(Dynamics(SAME, inverse, forward), rows)
    assert metrics["inverse_error"] == pytest.approx(0.25)
    assert metrics["forward_error"] == pytest.approx(1.0 + 0.25)
    assert loss == pytest.approx(1.5)
    np.testing.assert_allclose(action_vectors(ENV, jnp.array([2])), [[0, 0, 1, 0, 0]])
    square = maze("square")
    np.testing.assert_allclose(action_vectors(square, square.action_space.high[None]), [[1.0, 1.0]])


def test_the_contrast_of_cic_by_hand():
    similarities = jnp.array([[2.0, 1.0, 9.0], [0.5, 0.0, 9.0], [9.0, 9.0, 9.0]])
    loss, metrics = noise_contrast(similarities, jnp.array([1.0, 1.0, 0.0]))
    assert loss == pytest.approx(-((2 - 1) + (0 - 0.5)) / 2)  # one other move each, so the mean is its similarity
    assert metrics["identified"] == pytest.approx(0.5)


def test_a_move_is_compared_with_the_moves_of_the_batch():
    moves = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    state = CICState(None, Particles(jnp.zeros((3, 2)), jnp.array([True, True, False]), jnp.float32(1.0)), moves)
    found = identification(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), state, 0.5)
    assert found == pytest.approx(2 - np.log((np.exp(0) + np.exp(2)) / 2), rel=1e-5)


def test_the_cumulants_of_aps_by_hand():
    objective = aps_objective(ENV, APSConfig(dimensions=2, neighbours=2, entropy_reward_weight=3.0))
    points = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    state = BatchState(Trained(SAME, ()), Particles(points, jnp.ones(2, bool), jnp.float32(2.0)))
    episode = one_step_episodes(jnp.array([[7.0, 0.0]]), jnp.ones(1, bool))
    episode = jax.tree.map(lambda x: x[0], episode)._replace(skill=Skill(jnp.array([0.6, 0.8, 1.0]), jnp.int32(-1)))
    bonus = 3 * np.log1p((0 + np.sqrt(2)) / 2 / 2)
    np.testing.assert_allclose(objective.linear.cumulants(state, episode), [[1.0, 0.0, bonus]], rtol=1e-5)
    np.testing.assert_allclose(objective.reward(state, episode), [0.6 + bonus], rtol=1e-5)
    assert objective.sample(jax.random.key(0), state).code[-1] == 1


def test_the_contrast_of_becl_by_hand():
    states = jnp.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [-1.0, 0.0], [8.0, 0.0]])
    batch = Visits(states, jnp.array([0, 0, 0, 1, 0]), jnp.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    # f(s_0) = (1, 0): similarities 0 and 0.6 to the positives, -1 to the negative; itself and the last do not count.
    scores = np.exp(np.array([0.0, 0.6, -1.0]) / 0.5)
    expected = scores[:2].mean() / scores.sum()
    assert contrast(SAME, states[0], jnp.int32(0), batch, 0.5) == pytest.approx(expected, rel=1e-5)
    assert contrast(SAME, states[3], jnp.int32(1), batch, 0.5) == 0  # no other state of its skill


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "config"),
    [
        (apt, APTConfig(num_skills=4, neighbours=8, hidden=(32,), sac=SMALL)),
        (cic, CICConfig(num_skills=4, skill_size=4, neighbours=8, hidden=(32,), sac=SMALL)),
        (aps, APSConfig(num_skills=4, dimensions=2, neighbours=8, hidden=(32,), sac=SMALL)),
    ],
    ids=["apt", "cic", "aps"],
)
def test_entropy_makes_the_policy_leave_the_start(build, config):
    """On average over seeds: a policy may also crowd for a while where it was not before."""
    env, keys = maze("corridor_center", horizon=25), jax.random.split(jax.random.key(1), 4)

    def distance(config):
        train = jit(lambda key: run_program(build(env, config), key)[0])
        policies = [train(key) for key in keys]
        ends = [last_states(rollouts(jax.random.key(0), env, each, each.codes, num=20)) for each in policies]
        return np.mean(np.abs(np.stack(ends)[..., 0]))

    untrained = distance(dataclasses.replace(config, sac=dataclasses.replace(SMALL, iterations=1)))
    assert distance(config) > untrained + 0.5


@pytest.mark.slow
def test_becl_separates_its_skills():
    env = maze("corridor_center", horizon=25)
    program = becl(env, BeCLConfig(num_skills=2, representation=4, hidden=(32,), learning_rate=3e-3, sac=SMALL))
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    contrasts = np.asarray(metrics["contrast"])
    assert contrasts[-5:].mean() > contrasts[:5].mean() + 0.2
    ends = np.asarray(last_states(rollouts(jax.random.key(0), env, policy, policy.codes, num=20))[..., 0])
    assert abs(ends[0].mean() - ends[1].mean()) > ends.std(axis=1).mean()

"""DISCO-DANCE: guide, apprentices and divergence by hand; RSD: map, generators and regret by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.baselines.constraints import ConstrainedMap
from edl.baselines.disco_dance import (
    DiscoDanceConfig,
    action_divergence,
    apprentice_weights,
    disco_dance,
    disco_dance_objective,
    farthest_skill,
)
from edl.baselines.model_fitting import Moves
from edl.baselines.rsd import RSDConfig, bounded, evenly_spaced, map_loss, rsd
from edl.baselines.skill_generators import GeneratorObjective, Generators, add_generator, draw_code, no_generators
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.distributions import Categorical, TanhGaussian
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.objective import LearnerView
from edl.program import run_program
from tests.baselines.probe import TINY_SAC
from tests.compiling import jit

SMALL = dataclasses.replace(TINY_SAC, iterations=100, objective_batch_size=1280, entropy_weight=0.05)
GAUSSIAN = TanhGaussian(-jnp.ones(1), jnp.ones(1), 2)


def steps_to(states, skills, last):
    """Episodes of one step each."""
    states, flags = jnp.asarray(states, jnp.float32), jnp.zeros((len(skills), 1), bool)
    pairs = jnp.stack([jnp.zeros_like(states), states], axis=1)
    skill = Skill(jax.nn.one_hot(jnp.array(skills), 2), jnp.array(skills, jnp.int32))
    actions = jnp.zeros((len(skills), 1, 1))
    return Episode(pairs, pairs, actions, flags, jnp.array(last, bool)[:, None], ~flags, skill)


def pair_of(one, other):
    return jax.tree.map(lambda a, b: jnp.stack([a, b]), one, other)


def test_the_divergence_of_actions_by_hand():
    own, guided = jnp.array([0.5, np.log(0.5)]), jnp.array([1.0, np.log(2.0)])
    expected = np.log(2 / 0.5) + (0.25 + 0.25) / (2 * 4) - 0.5
    assert action_divergence(GAUSSIAN, own, guided) == pytest.approx(expected, rel=1e-5)
    assert action_divergence(GAUSSIAN, own, own) == pytest.approx(0.0, abs=1e-6)
    logits = jnp.log(jnp.array([0.25, 0.75])), jnp.log(jnp.array([0.5, 0.5]))
    expected = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    assert action_divergence(Categorical(2), *logits) == pytest.approx(expected, rel=1e-5)


def test_the_guide_ends_far_from_all_other_states():
    states = [[0, 0], [0, 1], [1, 0], [1, 1], [9, 9]]
    assert farthest_skill(steps_to(states, [0, 0, 1, 1, 1], [0, 1, 0, 0, 1]), 2, 2) == 1
    # The remote state is not the last one of its episode.
    assert farthest_skill(steps_to([*states, [-3, 0]], [0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1]), 2, 2) == 0


def test_apprentices_are_the_skills_that_are_hard_to_distinguish():
    sure = MLP([jnp.array([[0.0, np.log(3.0)]])], [jnp.zeros(2)])  # q(1|s = 1) = 3/4
    weights = apprentice_weights(sure, steps_to([[1], [1], [5]], [0, 1, 1], [1, 1, 0]), 2, 0.7)
    np.testing.assert_allclose(weights, [0.75, 0.0], rtol=1e-5)
    np.testing.assert_allclose(apprentice_weights(sure, steps_to([[1.0]], [1], [0]), 2, 0.7), [0.0, 0.0])


def test_a_round_begins_with_a_new_guide_and_a_copy_of_the_policy():
    # Means z_0 + 2 z_1 of the old policy, twice that of the new one; deviation 1.
    def learner(factor):
        actor = MLP([jnp.array([[0.0, 0.0], [0.0, 0.0], [factor, 0.0], [2 * factor, 0.0]])], [jnp.zeros(2)])
        policy = SkillPolicy(actor, identity_normaliser(2), GAUSSIAN, jnp.eye(2))
        return LearnerView(policy, MLP([jnp.zeros((5, 1))], [jnp.zeros(1)]))

    config = DiscoDanceConfig(num_skills=2, round_iterations=2, guidance=0.5, neighbours=1, hidden=(), minibatches=1)
    objective = disco_dance_objective(maze("square"), config)
    episodes = steps_to([[0.0, 0.0], [5.0, 5.0]], [0, 1], [1, 1])
    state = objective.init(jax.random.key(0))
    for factor in (1.0, 2.0):
        state, _ = objective.update(jax.random.key(1), objective.see_learner(state, learner(factor)), episodes)
    classifier = MLP([jnp.zeros((2, 2))], [jnp.log(jnp.array([0.25, 0.75]))])
    state = state._replace(classifier=state.classifier._replace(params=classifier), guide_index=jnp.int32(1))
    state = state._replace(weights=jnp.array([0.6, 0.0]))
    rewards = jax.vmap(objective.reward, (None, 0))(state, episodes)
    # log q - log p - beta w KL: the mean of skill 0 is 2, that of the guide in the copy of the new policy is 4.
    np.testing.assert_allclose(rewards, [[np.log(0.5) - 0.5 * 0.6 * 2.0], [np.log(1.5)]], rtol=1e-4)


def test_a_view_of_the_learner_has_the_value_of_the_deterministic_action():
    # a = tanh(s + z), Q_1 = s + 2 a, Q_2 = 10
    actor = MLP([jnp.array([[1.0, 0.0], [1.0, 0.0]])], [jnp.zeros(2)])
    critics = pair_of(
        MLP([jnp.array([[1.0], [0.0], [2.0]])], [jnp.zeros(1)]), MLP([jnp.zeros((3, 1))], [jnp.full(1, 10.0)])
    )
    policy = SkillPolicy(actor, identity_normaliser(1), GAUSSIAN, jnp.zeros((1, 1)))
    found = LearnerView(policy, critics).value(jnp.array([0.3]), jnp.array([0.4]))
    assert found == pytest.approx(0.3 + 2 * np.tanh(0.7), rel=1e-5)
    logits, tables = MLP([jnp.zeros((2, 2))], [jnp.log(jnp.array([0.25, 0.75]))]), jnp.array([[1.0, 8.0], [2.0, 4.0]])
    discrete = SkillPolicy(logits, identity_normaliser(1), Categorical(2), jnp.zeros((1, 1)))
    critics = pair_of(*(MLP([jnp.zeros((2, 2))], [table]) for table in tables))
    assert LearnerView(discrete, critics).value(jnp.ones(1), jnp.ones(1)) == pytest.approx(0.25 * 1 + 0.75 * 4)


def test_the_map_of_rsd_by_hand():
    phi, horizon = MLP([jnp.eye(1)], [jnp.zeros(1)]), jnp.float32(10.0)
    assert bounded(phi, jnp.array([5.0]), horizon)[0] == pytest.approx(np.tanh(1.0))
    rows = Moves(jnp.array([[0.0]]), jnp.array([[1.0]]), jnp.array([[-1.0]]), jnp.ones(1))
    length = np.tanh(0.2)  # away from z
    slack = 0.1 - length
    loss, metrics = map_loss(ConstrainedMap(phi, jnp.log(5.0)), rows, jnp.array([[2.0]]), horizon, 0.5)
    assert metrics["progress"] == pytest.approx(-length, rel=1e-4)
    assert loss == pytest.approx(length - 5 * slack + np.tanh(0.4) + np.log(5) * slack, rel=1e-4)


def test_an_empty_population_is_uniform_and_others_follow_their_generators():
    keys = jax.random.split(jax.random.key(0), 200)
    drawn = jax.vmap(lambda key: draw_code(key, no_generators(3, 2)))(keys)
    assert np.abs(drawn).max() <= 1
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.15)
    one = Generators(jnp.array([[0.5, -0.5], [9.0, 9.0]]), jnp.full((2, 2), -3.0), jnp.array([1.0, 0.0]))
    drawn = jax.vmap(lambda key: draw_code(key, one))(keys)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, -0.5], atol=0.02)
    at_mean = one.log_density(jnp.array([0.5, -0.5]))
    assert at_mean == pytest.approx(-np.log(2 * np.pi) + 6, rel=1e-4)
    assert no_generators(2, 2).log_density(jnp.zeros(2)) == pytest.approx(-2 * np.log(2))


def test_a_generator_moves_to_where_regret_is_large_and_replaces_the_worst():
    reached, last = jnp.array([[0.8, 0.0]]), jnp.ones(1)
    objective = GeneratorObjective(lambda code: code[0], reached, last, novelty=0.0, nearness=0.1)
    population = Generators(jnp.array([[0.9, 0.0], [-0.9, 0.0]]), jnp.zeros((2, 2)), jnp.ones(2))
    after = jit(lambda key: add_generator(key, population, objective))(jax.random.key(0))
    np.testing.assert_allclose(after.means[0], [0.9, 0.0])
    assert after.means[1, 0] > 0.2


@pytest.mark.slow
def test_skills_of_disco_dance_are_distinguishable():
    env = maze("corridor_center", horizon=25)
    config = DiscoDanceConfig(num_skills=3, round_iterations=20, hidden=(32,), minibatches=20, sac=SMALL)
    program = disco_dance(env, config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    assert metrics["accuracy"][-5:].mean() > 0.7
    assert metrics["apprentices"][:19].max() == 0
    assert metrics["apprentices"].max() > 0
    ends = np.asarray(last_states(rollouts(jax.random.key(0), env, policy, policy.codes, num=10))[..., 0])
    assert np.ptp(ends.mean(axis=1)) > 3


@pytest.mark.slow
def test_skills_of_rsd_reach_their_points():
    env = maze("corridor_center", horizon=25)
    config = RSDConfig(
        num_skills=4, skill_size=1, round_iterations=10, hidden=(32,), learning_rate=3e-3, minibatches=20, sac=SMALL
    )
    program = rsd(env, config)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    assert metrics["generators"][-1] == 5
    ends = np.asarray(last_states(rollouts(jax.random.key(0), env, policy, policy.codes, num=10)))
    errors = np.abs(ends - np.asarray(policy.goals)[:, None]).mean()
    spread = np.abs(np.asarray(policy.goals)[:, 0] - policy.goals[:, 0].mean()).mean()
    assert errors < spread


def test_rsd_picks_goals_from_a_large_replay_buffer_without_overflow():
    np.testing.assert_array_equal(evenly_spaced(10, 4), [0, 2, 5, 7])
    size = 10_000_000
    np.testing.assert_array_equal(evenly_spaced(jnp.int32(size), 1024), np.arange(1024) * size // 1024)

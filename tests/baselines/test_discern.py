"""DISCERN: reward, loss and goal buffer by hand; training makes goals diverse, distinguishable and reachable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.discern import (
    DiscernConfig,
    DiscernState,
    Ends,
    discern,
    discern_loss,
    discern_objective,
    end_reward,
    propose_goal,
    similarity,
    spread,
)
from edl.baselines.goal_skills import goal_skill
from edl.envs.rollout import Episode
from edl.nets.mlp import MLP
from edl.program import run_program
from edl.rl.replay import as_episode, to_transitions
from edl.rl.sac import SACConfig
from tests.baselines.probe import ENV
from tests.compiling import jit

TINY = DiscernConfig(
    num_skills=4,
    num_goals=64,
    decoys=4,
    hidden=(32,),
    learning_rate=3e-3,
    batch_size=64,
    memory=512,
    sac=SACConfig(
        iterations=100, rollouts=16, update_every=4, capacity=10_000, warmup=100, batch_size=64, hidden=(32, 32),
        bootstrap=False, gamma=0.9, learning_rate=3e-3, tau=0.02, entropy_weight=0.005,
    ),
)  # fmt: skip
PLAIN = MLP([jnp.eye(2)], [jnp.zeros(2)])
"""xi(s) = s / ||s||."""


def episode_to(goal):
    """An episode from (1, 0) over (1, 1) to (0, 2), which ends at the time limit."""
    features = jnp.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    never, end = jnp.zeros(2, bool), jnp.array([False, True])
    return Episode(features, features, jnp.zeros(2, jnp.int32), never, end, ~never, goal_skill(jnp.asarray(goal)))


def test_similarity_is_the_cosine_of_embeddings():
    assert similarity(PLAIN, jnp.array([3.0, 4.0]), jnp.array([0.0, 9.0])) == pytest.approx(0.8)


def test_the_reward_comes_at_the_end_and_is_clipped():
    np.testing.assert_allclose(end_reward(PLAIN, episode_to([3.0, 4.0])), [0.0, 0.8], rtol=1e-6)
    np.testing.assert_allclose(end_reward(PLAIN, episode_to([3.0, -4.0])), [0.0, 0.0], rtol=1e-6)


def test_single_steps_have_the_same_reward():
    episodes = jax.tree.map(lambda x: x[None], episode_to([3.0, 4.0]))
    steps = jax.vmap(as_episode)(to_transitions(episodes, jnp.zeros((1, 2)))[0])
    np.testing.assert_allclose(jax.vmap(end_reward, (None, 0))(PLAIN, steps)[:, 0], [0.0, 0.8], rtol=1e-6)


def test_the_loss_by_hand():
    # Similarities to the end (0, 1): goal 0.8, decoys 0 and 1; beta = 3.
    ends = Ends(jnp.array([[0.0, 1.0]]), jnp.array([[3.0, 4.0]]))
    loss, metrics = discern_loss(PLAIN, ends, jnp.array([[[1.0, 0.0], [0.0, 5.0]]]))
    assert loss == pytest.approx(-np.log(np.exp(2.4) / (np.exp(2.4) + np.exp(0.0) + np.exp(3.0))), rel=1e-5)
    assert metrics["goal_accuracy"] == 0
    _, metrics = discern_loss(PLAIN, ends, jnp.array([[[1.0, 0.0], [0.0, -5.0]]]))
    assert metrics["goal_accuracy"] == 1


@pytest.mark.parametrize(("proposal", "admit", "accepted"), [(5.0, 0.0, True), (0.5, 0.0, False), (0.5, 1.0, True)])
def test_the_buffer_accepts_states_farther_from_the_others_and_random_ones(proposal, admit, accepted):
    goals = jnp.array([[0.0], [1.0], [2.0], [3.0]])  # each is farther from the others on average than 0.5 is
    goals = goals.at[1:3, 0].set(jnp.array([0.1, 2.9]))
    after = propose_goal(jax.random.key(0), goals, jnp.array([proposal]), admit)
    changed = np.flatnonzero(np.asarray(after != goals)[:, 0])
    assert len(changed) == accepted
    assert not accepted or after[changed[0], 0] == proposal


def test_a_share_of_the_steps_is_replayed_in_hindsight():
    objective = discern_objective(ENV, TINY)
    step, later = episode_to([1.0, 1.0]), jnp.full(2, 3.0)
    keys = jax.random.split(jax.random.key(1), 4000)
    codes = jit(jax.vmap(lambda key: objective.relabel(key, DiscernState(None, None, None), step, later).code))(keys)
    assert np.mean(np.asarray(codes[:, 0]) == 3) == pytest.approx(0.25, abs=0.03)


@pytest.fixture(scope="module")
def trained():
    program = discern(ENV, TINY)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    return policy, jax.tree.map(np.asarray, metrics)


@pytest.mark.slow
def test_goals_become_diverse_distinguishable_and_reached(trained):
    policy, metrics = trained
    assert metrics["goal_spread"][0] < 1 < metrics["goal_spread"][-1]
    assert metrics["goal_accuracy"][-5:].mean() > max(0.5, metrics["goal_accuracy"][5:10].mean() + 0.1)
    assert metrics["return"][-10:].mean() > 0.7
    assert metrics["goal_success"][-10:].mean() > 0.5
    np.testing.assert_array_equal(policy.codes, policy.goals)
    assert spread(policy.goals) > 1

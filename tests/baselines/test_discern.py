"""DISCERN: reward, loss and the goal buffer by hand, and that goals become diverse, discerned and reached."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.discern import (
    DiscernConfig,
    Discernment,
    Ends,
    discern,
    discern_loss,
    discern_objective,
    end_reward,
    propose,
    similarity,
    spread,
)
from edl.baselines.goals import goal_skill
from edl.envs.rollout import Episode
from edl.nets.mlp import MLP
from edl.program import execute
from edl.rl.replay import as_episode, transitions_of
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
    """Goes from (1, 0) over (1, 1) to (0, 2), where time is up."""
    features = jnp.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    never, end = jnp.zeros(2, bool), jnp.array([False, True])
    return Episode(features, features, jnp.zeros(2, jnp.int32), never, end, ~never, goal_skill(jnp.asarray(goal)))


def test_similarity_is_the_cosine_of_embeddings():
    assert similarity(PLAIN, jnp.array([3.0, 4.0]), jnp.array([0.0, 9.0])) == pytest.approx(0.8)


def test_the_reward_is_paid_at_the_end_and_clipped():
    np.testing.assert_allclose(end_reward(PLAIN, episode_to([3.0, 4.0])), [0.0, 0.8], rtol=1e-6)
    np.testing.assert_allclose(end_reward(PLAIN, episode_to([3.0, -4.0])), [0.0, 0.0], rtol=1e-6)


def test_the_reward_can_be_told_from_single_steps():
    episodes = jax.tree.map(lambda x: x[None], episode_to([3.0, 4.0]))
    steps = jax.vmap(as_episode)(transitions_of(episodes, jnp.zeros((1, 2)))[0])
    np.testing.assert_allclose(jax.vmap(end_reward, (None, 0))(PLAIN, steps)[:, 0], [0.0, 0.8], rtol=1e-6)


def test_the_loss_by_hand():
    # Similarities to the end (0, 1): goal 0.8, decoys 0 and 1; beta = 3.
    ends = Ends(jnp.array([[0.0, 1.0]]), jnp.array([[3.0, 4.0]]))
    loss, metrics = discern_loss(PLAIN, ends, jnp.array([[[1.0, 0.0], [0.0, 5.0]]]))
    assert loss == pytest.approx(-np.log(np.exp(2.4) / (np.exp(2.4) + np.exp(0.0) + np.exp(3.0))), rel=1e-5)
    assert metrics["discerned"] == 0
    _, metrics = discern_loss(PLAIN, ends, jnp.array([[[1.0, 0.0], [0.0, -5.0]]]))
    assert metrics["discerned"] == 1


@pytest.mark.parametrize(("proposal", "admit", "taken"), [(5.0, 0.0, True), (0.5, 0.0, False), (0.5, 1.0, True)])
def test_the_buffer_takes_what_is_farther_from_the_others_or_what_chance_admits(proposal, admit, taken):
    goals = jnp.array([[0.0], [1.0], [2.0], [3.0]])  # for each, the others are farther off on average than from 0.5
    goals = goals.at[1:3, 0].set(jnp.array([0.1, 2.9]))
    after = propose(jax.random.key(0), goals, jnp.array([proposal]), admit)
    changed = np.flatnonzero(np.asarray(after != goals)[:, 0])
    assert len(changed) == taken
    assert not taken or after[changed[0], 0] == proposal


def test_a_share_of_the_steps_is_replayed_in_hindsight():
    objective = discern_objective(ENV, TINY)
    step, later = episode_to([1.0, 1.0]), jnp.full(2, 3.0)
    keys = jax.random.split(jax.random.key(1), 4000)
    codes = jit(jax.vmap(lambda key: objective.relabel(key, Discernment(None, None, None), step, later).code))(keys)
    assert np.mean(np.asarray(codes[:, 0]) == 3) == pytest.approx(0.25, abs=0.03)


@pytest.fixture(scope="module")
def trained():
    program = discern(ENV, TINY)
    policy, metrics = jit(lambda key: execute(program, key))(jax.random.key(0))
    return policy, jax.tree.map(np.asarray, metrics)


@pytest.mark.slow
def test_goals_become_diverse_and_are_told_and_reached(trained):
    policy, metrics = trained
    assert metrics["goal_spread"][0] < 1 < metrics["goal_spread"][-1]
    assert metrics["discerned"][-5:].mean() > max(0.5, metrics["discerned"][5:10].mean() + 0.1)
    assert metrics["return"][-10:].mean() > 0.7
    assert metrics["goal_success"][-10:].mean() > 0.5
    np.testing.assert_array_equal(policy.codes, policy.goals)
    assert spread(policy.goals) > 1

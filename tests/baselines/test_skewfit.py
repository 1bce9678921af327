"""Skew-Fit: reward, skew, entropy and relabelling by hand; training spreads goals and reaches them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.goal_skills import goal_skill
from edl.baselines.skewfit import (
    SkewFitConfig,
    SkewFitState,
    distance_reward,
    skewed_entropy,
    skewfit,
    skewfit_objective,
)
from edl.envs.rollout import rollout
from edl.program import run_program
from edl.rl.sac import SACConfig
from tests.baselines.probe import ENV
from tests.compiling import jit

TINY = SkewFitConfig(
    num_skills=4,
    memory=2000,
    fitted_to=128,
    sac=SACConfig(
        iterations=60, rollouts=16, update_every=4, capacity=10_000, warmup=100, batch_size=64, hidden=(32, 32),
        gamma=0.9, learning_rate=3e-3, tau=0.02, entropy_weight=0.05,
    ),
)  # fmt: skip


def test_the_reward_by_hand():
    reward = distance_reward(None, jnp.array([3.0, 5.0]), goal_skill(jnp.array([0.0, 1.0])))
    assert reward == pytest.approx(-5.0)


@pytest.mark.parametrize("skew", [-1.0, -0.5])
def test_the_entropy_of_the_skewed_density_by_hand(skew):
    # p is 3/4 on [0, 1] and 1/8 on [1, 3]; p^(1 + skew), normalised, has a known entropy.
    p, width = np.array([3 / 4, 1 / 8]), np.array([1.0, 2.0])
    raised = p ** (1 + skew)
    density = raised / np.sum(raised * width)
    expected = -np.sum(width * density * np.log(density))
    samples = jnp.log(jnp.array([3 / 4] * 3 + [1 / 8]))  # three of four samples fall on [0, 1]
    assert skewed_entropy(samples, skew) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def parts():
    objective = skewfit_objective(ENV, TINY)
    state = jit(objective.init)(jax.random.key(0))
    return objective, state._replace(goals=jnp.full((128, 2), 7.0))


def step_of(goal):
    play = jit(lambda: rollout(jax.random.key(0), ENV, lambda *_: (jnp.int32(1), jnp.zeros(())), goal_skill(goal)))
    return play()


def test_steps_are_replayed_with_three_kinds_of_goals_in_the_shares_of_the_public_code(parts):
    objective, state = parts
    step, later = step_of(jnp.ones(2)), jnp.full(2, 3.0)
    keys = jax.random.split(jax.random.key(1), 4000)
    skills = jit(jax.vmap(lambda key: objective.relabel(key, state, step, later)))(keys)
    np.testing.assert_array_equal(skills.code, skills.goal)
    values, counts = np.unique(np.asarray(skills.code[:, 0]), return_counts=True)
    np.testing.assert_array_equal(values, [1, 3, 7])  # its own goal, a state reached later, and a goal from p_skewed
    np.testing.assert_allclose(counts / 4000, [0.2, 0.3, 0.5], atol=0.03)


def test_rare_states_become_goals_as_often_as_frequent_ones(parts):
    objective, state = parts
    states = jnp.concatenate([jnp.zeros((90, 2)), jnp.full((10, 2), 4.0)])
    spread = states + 0.3 * jax.random.normal(jax.random.key(2), states.shape)
    visited = state.visited._replace(rows=state.visited.rows.at[:100].set(spread), size=jnp.int32(100))
    episodes = jax.tree.map(lambda x: x[None], step_of(jnp.ones(2)))
    no_visits = episodes._replace(valid=jnp.zeros_like(episodes.valid))
    after, _ = jit(objective.update)(jax.random.key(3), SkewFitState(visited, state.goals), no_visits)
    assert 0.3 < float(jnp.mean(after.goals[:, 0] > 2)) < 0.7  # these are a tenth of the visits


@pytest.fixture(scope="module")
def trained():
    program = skewfit(ENV, TINY)
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    return policy, jax.tree.map(np.asarray, metrics)


def test_goals_spread_and_are_reached(trained):
    _, metrics = trained
    assert metrics["goal_entropy"][-5:].mean() > metrics["goal_entropy"][0]
    assert metrics["goal_success"][-5:].mean() > 0.8
    assert metrics["goal_distance"][-5:].mean() < 0.5 * metrics["goal_distance"][5:10].mean()


def test_example_goals_are_far_apart_and_lead_to_different_actions(trained):
    policy, _ = trained
    np.testing.assert_array_equal(policy.codes, policy.goals)
    gaps = np.linalg.norm(policy.goals[:, None] - policy.goals[None], axis=-1) + 9 * np.eye(4)
    assert gaps.min() >= 1
    first = np.array([policy.mode(jnp.zeros(2), code) for code in policy.codes])
    assert len(set(first.tolist())) > 1

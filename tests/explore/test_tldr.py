"""TLDR: its map, rewards and goals by hand; it reaches farther than random actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.maze import maze
from edl.envs.rollout import rollout
from edl.explore.tldr import (
    FAR,
    SHARPNESS,
    TemporalMap,
    TLDRConfig,
    go_to,
    goal_policy,
    map_loss,
    novelty,
    tldr,
    tldr_objective,
    wander,
)
from edl.nets.mlp import MLP
from edl.nets.optim import Trained
from edl.program import run_program
from tests.compiling import jit

ENV = maze("square", horizon=4)
DOUBLE = MLP([2 * jnp.eye(2)], [jnp.zeros(2)])
"""phi(s) = 2 s."""
SMALL = TLDRConfig(
    iterations=2, rollouts=4, dimensions=2, hidden=(8,), batch_size=16, particles=16, neighbours=2, candidates=3
)


def test_the_loss_by_hand():
    before, after = jnp.zeros((2, 2)), jnp.array([[0.3, 0.0], [0.0, 1.0]])
    goals = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    loss, metrics = map_loss(TemporalMap(DOUBLE, jnp.log(5.0)), before, after, goals, 0.25)
    far = np.log1p(np.exp(SHARPNESS * (FAR - np.array([10.0, 1.0])))).mean() / SHARPNESS
    mean_slack = (0.25 - 3.0) / 2
    assert loss == pytest.approx(far - 5 * mean_slack + np.log(5) * mean_slack, rel=1e-4)
    assert metrics["map_distance"] == pytest.approx(5.5, rel=1e-4)
    assert metrics["squared_step"] == pytest.approx((0.36 + 4.0) / 2, rel=1e-4)


def test_rewards_of_both_roles_by_hand():
    objective = tldr_objective(ENV, SMALL)
    points = jnp.array([[0.0, 0.0], [0.0, 3.0], [9.0, 9.0]])
    state = objective.init(jax.random.key(0))._replace(
        map=Trained(TemporalMap(DOUBLE, jnp.zeros(())), ()), points=points
    )
    episode = rollout(jax.random.key(1), ENV, lambda *_: (jnp.array([0.5, 0.0]), jnp.zeros(())), wander(2))
    path = 2 * np.asarray(episode.features)
    nearest = np.sort(np.linalg.norm(path[1:, None] - np.asarray(points), axis=2), axis=1)[:, :2].mean(axis=1)
    np.testing.assert_allclose(objective.reward(state, episode), np.log1p(nearest), rtol=1e-4)
    goal = jnp.array([1.0, 0.5])
    left = np.linalg.norm(path - 2 * np.asarray(goal), axis=1)
    np.testing.assert_allclose(objective.reward(state, episode._replace(skill=go_to(goal))), -np.diff(left), atol=1e-3)


def test_goals_are_the_most_remote_states_of_the_pool():
    objective = tldr_objective(ENV, SMALL)
    state = objective.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 4)
    episodes = jax.vmap(
        lambda key: rollout(key, ENV, lambda key, *_: (jax.random.normal(key, (2,)), jnp.zeros(())), wander(2))
    )(keys)
    after, _ = jit(objective.update)(jax.random.key(2), state, episodes)
    far = jax.vmap(lambda point: novelty(point, after.points, 2))(after.points)
    of_goals = jax.vmap(lambda goal: novelty(after.map.params.phi(goal), after.points, 2))(after.goals)
    np.testing.assert_allclose(np.sort(of_goals), np.sort(far)[-3:], rtol=1e-4)
    visited = {tuple(s) for s in np.asarray(episodes.features).reshape(-1, 2)}
    assert {tuple(g) for g in np.asarray(after.goals)} <= visited


def test_the_goal_policy_is_the_policy_in_the_role_without_exploration():
    objective, skill = tldr_objective(ENV, SMALL), go_to(jnp.array([1.0, 0.5]))
    program = tldr(ENV, SMALL)
    state = program.init(jax.random.key(0))
    whole = program_policy(state)
    policy = goal_policy(whole, state.objective.goals)
    np.testing.assert_allclose(policy(jnp.ones(2), skill.goal), whole(jnp.ones(2), skill.code), rtol=1e-5)
    roles = [int(objective.sample(key, state.objective).index) for key in jax.random.split(jax.random.key(0), 20)]
    assert {0, 1} == set(roles)


def program_policy(state):
    """The policy of both roles."""
    from edl.artifacts import SkillPolicy
    from edl.nets.distributions import action_distribution
    from edl.nets.normalise import identity_normaliser

    actions = action_distribution(ENV.action_space, "tanh_gaussian")
    return SkillPolicy(state.learner.agent.params.actor, identity_normaliser(2), actions, jnp.zeros((1, 3)))


@pytest.mark.slow
def test_it_explores_farther_than_random_actions():
    env = maze("corridor_left", horizon=30)
    config = TLDRConfig(
        iterations=40, rollouts=16, dimensions=2, hidden=(32, 32), batch_size=64, particles=256, neighbours=8,
        model_learning_rate=3e-3, learning_rate=3e-3,
    )  # fmt: skip
    program = tldr(env, config)
    states, metrics = jit(lambda key: run_program(program, key))(jax.random.key(1))
    paths = np.asarray(states.experience.paths)[..., 0]
    farthest = paths.max(axis=1)
    assert farthest[-160:].mean() > farthest[:16].mean() + 1.5  # no gradient step precedes the first 16 episodes
    assert metrics["squared_step"][-5:].mean() < 1.5

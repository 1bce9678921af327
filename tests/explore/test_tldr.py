"""TLDR: its map, rewards, goals and roles by hand; it reaches farther than random actions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.envs.maze import maze
from edl.envs.rollout import rollout
from edl.evaluate.floor import accepts_goals
from edl.explore.tldr import (
    FAR,
    SHARPNESS,
    TemporalMap,
    TLDRConfig,
    go_to,
    goal_policy,
    in_role,
    map_loss,
    novelty,
    tldr,
    tldr_objective,
)
from edl.nets.distributions import action_distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.nets.optim import Trained
from edl.program import run_program
from edl.rl.replay import as_episode, to_transitions
from tests.compiling import jit

ENV = maze("square", horizon=4)
DOUBLE = MLP([2 * jnp.eye(2)], [jnp.zeros(2)])
"""phi(s) = 2 s."""
SMALL = TLDRConfig(
    iterations=2, rollouts=4, dimensions=2, hidden=(8,), batch_size=16, particles=16, neighbours=2, candidates=3
)
GOAL = jnp.array([1.0, 0.5])
TO_GOAL, EXPLORE = go_to(GOAL, jnp.int32(9)), in_role(go_to(GOAL, jnp.int32(0)), jnp.bool_(True))


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
        map=Trained(TemporalMap(DOUBLE, jnp.zeros(())), ()), points=points, spacing=jnp.float32(4.0)
    )
    episode = rollout(jax.random.key(1), ENV, lambda *_: (jnp.array([0.5, 0.0]), jnp.zeros(())), EXPLORE)
    path = 2 * np.asarray(episode.features)
    nearest = np.sort(np.linalg.norm(path[1:, None] - np.asarray(points), axis=2), axis=1)[:, :2].mean(axis=1)
    np.testing.assert_allclose(objective.reward(state, episode), np.log1p(nearest / 4), rtol=1e-4)
    left = np.linalg.norm(path - 2 * np.asarray(GOAL), axis=1)
    np.testing.assert_allclose(objective.reward(state, episode._replace(skill=TO_GOAL)), -np.diff(left), atol=1e-3)


def test_an_episode_goes_to_its_goal_until_the_switch_and_explores_from_then_on():
    objective = tldr_objective(ENV, SMALL)
    state = objective.init(jax.random.key(0))

    def act(key, observation, code):  # the goal policy goes right, the other one up
        return jnp.where(code[-1] > 0, jnp.array([0.0, 0.5]), jnp.array([0.5, 0.0])), code

    def play(switch):
        change = lambda *now: objective.change_skill(state, *now)  # noqa: E731
        return rollout(jax.random.key(1), ENV, act, go_to(GOAL, jnp.int32(switch)), change=change)

    right, up, to_goal, explore = [0.5, 0.0], [0.0, 0.5], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0]
    for switch in (0, 1, 3, 4, 7):
        first = min(switch, 4)
        episode = play(switch)
        np.testing.assert_array_equal(episode.actions, [right] * first + [up] * (4 - first))
        np.testing.assert_array_equal(episode.extras, [to_goal] * first + [explore] * (4 - first))
        np.testing.assert_array_equal(episode.skills.code, episode.extras)
        rewards = objective.reward(state, episode)
        for role, steps in ((TO_GOAL, slice(first)), (EXPLORE, slice(first, None))):
            alone = objective.reward(state, episode._replace(skill=role, skills=None))
            np.testing.assert_allclose(rewards[steps], alone[steps], atol=1e-6)
    steps, _ = to_transitions(jax.tree.map(lambda x: x[None], play(3)), jnp.zeros((1, 4)))
    np.testing.assert_array_equal(steps.skill.code, [to_goal] * 3 + [explore])


def test_half_of_the_episodes_switch_at_a_uniformly_random_step():
    objective = tldr_objective(ENV, SMALL)
    state = objective.init(jax.random.key(0))
    draw = jax.vmap(objective.sample, (0, None))
    keys = jax.random.split(jax.random.key(1), 4000)
    assert (draw(keys, state).index == 0).all()  # the first iteration explores
    goals = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    skills = draw(keys, state._replace(episodes=jnp.int32(4), goals=goals))
    switches = np.asarray(skills.index)
    counts = np.bincount(np.minimum(switches, 4), minlength=5)  # the horizon is 4
    np.testing.assert_allclose(counts, [500, 500, 500, 500, 2000], atol=95)  # three standard deviations
    assert len(np.unique(skills.goal[:, 0])) == 3
    np.testing.assert_array_equal(skills.code, np.append(skills.goal, np.zeros((4000, 1)), axis=1))


def test_steps_are_replayed_in_both_roles_with_their_own_goal_or_a_later_state():
    objective = tldr_objective(ENV, dataclasses.replace(SMALL, hindsight=0.3))
    state = objective.init(jax.random.key(0))
    episode = rollout(jax.random.key(1), ENV, lambda *_: (jnp.array([0.5, 0.0]), jnp.zeros(())), TO_GOAL)
    steps, _ = to_transitions(jax.tree.map(lambda x: x[None], episode), jnp.zeros((1, 4)))
    step, later = as_episode(jax.tree.map(lambda x: x[1], steps)), jnp.array([7.0, 8.0])
    keys = jax.random.split(jax.random.key(2), 2000)
    for played, share in ((TO_GOAL, 0.3), (EXPLORE, 1.0)):
        relabel = jax.vmap(lambda key: objective.relabel(key, state, step._replace(skill=played), later))  # noqa: B023
        skills = jax.tree.map(np.asarray, relabel(keys))
        in_hindsight = (skills.goal == np.asarray(later)).all(axis=1)
        assert (in_hindsight | (skills.goal == np.asarray(GOAL)).all(axis=1)).all()
        assert in_hindsight.mean() == pytest.approx(share, abs=0.03)
        explores = skills.code[:, -1]
        assert explores.mean() == pytest.approx(0.5, abs=0.04)
        np.testing.assert_array_equal(skills.code[:, :2], skills.goal * (1 - explores[:, None]))


def test_the_spacing_is_the_mean_over_all_iterations():
    objective = tldr_objective(ENV, dataclasses.replace(SMALL, iterations=3))
    state, means = objective.init(jax.random.key(0)), []
    for number in range(3):
        key = jax.random.key(number)
        state, _ = jit(objective.update)(key, state, random_episodes(key))
        distances = np.linalg.norm(state.points[:, None] - state.points, axis=2)
        means.append(np.sort(distances, axis=1)[:, :2].mean())  # a point is a neighbour of itself
        assert state.spacing == pytest.approx(np.mean(means), rel=1e-4)
    assert np.std(means) > 0


def random_episodes(key):
    act = lambda key, *_: (jax.random.normal(key, (2,)), jnp.zeros(()))  # noqa: E731
    return jax.vmap(lambda key: rollout(key, ENV, act, EXPLORE))(jax.random.split(key, 4))


def test_goals_are_the_most_remote_states_of_the_pool():
    objective = tldr_objective(ENV, SMALL)
    state = objective.init(jax.random.key(0))
    episodes = random_episodes(jax.random.key(1))
    after, _ = jit(objective.update)(jax.random.key(2), state, episodes)
    far = jax.vmap(lambda point: novelty(point, after.points, 2))(after.points)
    of_goals = jax.vmap(lambda goal: novelty(after.map.params.phi(goal), after.points, 2))(after.goals)
    np.testing.assert_allclose(np.sort(of_goals), np.sort(far)[-3:], rtol=1e-4)
    visited = {tuple(s) for s in np.asarray(episodes.features).reshape(-1, 2)}
    assert {tuple(g) for g in np.asarray(after.goals)} <= visited


def test_the_goal_policy_is_the_policy_in_the_role_without_exploration():
    program = tldr(ENV, SMALL)
    state = program.init(jax.random.key(0))
    whole = program_policy(state)
    policy = goal_policy(whole, state.objective.goals)
    np.testing.assert_allclose(policy(jnp.ones(2), GOAL), whole(jnp.ones(2), TO_GOAL.code), rtol=1e-5)
    assert accepts_goals(policy)  # so it is told goals, where methods are compared


def program_policy(state):
    """The policy of both roles."""
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

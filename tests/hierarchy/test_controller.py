"""Controllers over four known skills in a gridworld: always left, right, up or down."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.envs.clock import timed_env
from edl.envs.gridworld import GridWorld, gridworld
from edl.envs.rollout import Skill, rollout
from edl.hierarchy import ControlConfig, controller, play_tasks, ppo_without_skills, zero_shot_success
from edl.hierarchy.controller import sparse_goal_objective, steps_per_task, succeeded
from edl.hierarchy.envs import goal_env, skill_action_env
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, identity_normaliser
from edl.program import run_program
from tests.compiling import jit

KEY = jax.random.key(0)
SIZE, HORIZON, HOLD = 9, 12, 4
GRID = gridworld(SIZE, SIZE, HORIZON)
RIGHT, UP = 1, 2
CODES = 50.0 * jnp.eye(4)
POLICY = SkillPolicy(
    MLP([jnp.concatenate([jnp.zeros((2, 4)), jnp.eye(4)])], [jnp.zeros(4)]),
    identity_normaliser(2),
    Categorical(4),
    CODES,
)
GOALS = jnp.array([[4.0, 4.0], [4.0, 0.0]])
RADIUS = jnp.full(2, 0.5)
SMALL = ControlConfig(env_steps=4800, hold=HOLD, rollouts=20, epochs=4, minibatches=2, hidden=(16,), learning_rate=0.02)


def test_goal_env_terminates_at_the_goal():
    env = goal_env(GRID, jnp.array([1.0, 0.0]), RADIUS)
    state = env.reset(KEY)
    assert not env.step(KEY, state, jnp.int32(UP)).terminated
    assert env.step(KEY, state, jnp.int32(RIGHT)).terminated
    assert (env.horizon, env.action_space) == (GRID.horizon, GRID.action_space)


def test_skill_action_env_holds_the_skill_and_terminates_if_an_inner_step_does():
    env = skill_action_env(goal_env(GRID, jnp.array([2.0, 0.0]), RADIUS), POLICY, HOLD)
    assert (env.horizon, env.action_space.n) == (HORIZON // HOLD, 4)
    state = env.reset(KEY)
    right, up = (env.step(KEY, state, jnp.int32(action)) for action in (RIGHT, UP))
    np.testing.assert_array_equal(right.observation, [2, 0])  # where the inner env terminated
    np.testing.assert_array_equal(up.observation, [0, HOLD])
    assert right.terminated
    assert not up.terminated


@pytest.fixture(scope="module")
def learned():
    return jit(lambda key: run_program(controller(GRID, POLICY, GOALS, RADIUS, SMALL), key))(KEY)


def test_controller_learns_to_chain_skills(learned):
    controllers, metrics = learned

    def make_task(goal):
        return skill_action_env(goal_env(GRID, goal, RADIUS), POLICY, HOLD)

    episodes = jit(lambda key: play_tasks(key, controllers, make_task, GOALS, 40))(KEY)
    success = np.mean(succeeded(episodes), axis=1)
    assert (success > 0.8).all()
    assert metrics["success"][-1] > metrics["success"][0]
    first = np.asarray(episodes.actions)[0]
    assert set(first[:, :2].ravel()) >= {RIGHT, UP}


def test_both_learners_use_the_same_number_of_env_steps():
    with_skills, without_skills = (
        controller(GRID, POLICY, GOALS, RADIUS, SMALL),
        ppo_without_skills(GRID, GOALS, RADIUS, SMALL),
    )
    expected = SMALL.env_steps * len(GOALS)
    assert with_skills.iterations * with_skills.env_steps == expected
    assert without_skills.iterations * without_skills.env_steps == expected


def test_steps_are_rounded_up_to_whole_iterations():
    config = dataclasses.replace(SMALL, env_steps=20 * HORIZON + 1)  # one iteration and one step
    assert steps_per_task(GRID, config) == 2 * 20 * HORIZON
    assert controller(GRID, POLICY, GOALS, RADIUS, config).iterations == 2
    assert ppo_without_skills(GRID, GOALS, RADIUS, config).iterations == 2


def test_observations_are_normalised_once_by_running_moments():
    # All four skills go right, from x = 0 to the wall at x = 4: the controller sees x = 0, 4, 4 and y = 0.
    own = Normaliser(jnp.full(2, 5.0), jnp.full(2, 2.0))
    policy = SkillPolicy(POLICY.actor, own, POLICY.distribution, jnp.stack([CODES[RIGHT]] * 4))
    nowhere = jnp.array([[-9.0, -9.0]])
    config = dataclasses.replace(SMALL, env_steps=2 * 20 * HORIZON, hidden=(4,))
    controllers, _ = jit(lambda key: run_program(controller(GRID, policy, nowhere, RADIUS, config), key))(KEY)
    np.testing.assert_allclose(controllers.normaliser.mean, [[8 / 3, 0]], atol=1e-5)
    np.testing.assert_allclose(controllers.normaliser.scale, [[np.sqrt(32 / 9), 1]], rtol=1e-5)


def test_zero_shot_plays_one_skill_for_the_whole_episode():
    codes = jnp.stack([CODES[RIGHT], CODES[RIGHT]])
    success = jit(lambda key: zero_shot_success(key, GRID, POLICY, codes, GOALS, RADIUS, 5))(KEY)
    np.testing.assert_array_equal(success, [0.0, 1.0])


def row_with_a_hole(hole):
    """A row of tiles whose start is at its left. It terminates at the tile ``hole``, as if the agent fell into it."""
    shape, zeros = jnp.array([9, 1], jnp.int32), jnp.zeros(2, jnp.int32)
    return GridWorld(shape=shape, start=zeros, end=jnp.array([hole, 0], jnp.int32), horizon=HORIZON)


@pytest.mark.parametrize(("hole", "goal", "reached"), [(2, 3, False), (3, 2, True), (2, 2, True), (6, 5, True)])
def test_only_the_goal_is_a_success_and_a_termination_before_it_is_a_failure(hole, goal, reached):
    env, place = row_with_a_hole(hole), jnp.array([float(goal), 0.0])
    codes = CODES[RIGHT][None]
    success = jit(lambda key: zero_shot_success(key, env, POLICY, codes, place[None], RADIUS, 3))(KEY)
    assert success == float(reached)
    # A controller that always goes to the right, for 4 steps at a time, even after the inner env has terminated.
    task = skill_action_env(goal_env(env, place, RADIUS), POLICY, HOLD)
    episode = rollout(
        KEY, task, lambda key, seen, code: (jnp.int32(RIGHT), jnp.zeros(0)), Skill(CODES[0], jnp.int32(0))
    )
    assert jnp.any(episode.terminated)
    assert succeeded(episode) == reached
    rewards = sparse_goal_objective().reward(None, episode)
    np.testing.assert_array_equal(rewards, reached * np.eye(HORIZON // HOLD)[int(goal > HOLD)])


def test_wrappers_are_as_slow_to_compile_as_the_env_inside():
    class Slow(GridWorld):
        @property
        def slow_to_compile(self):
            return True

    slow = Slow(GRID.shape, GRID.start, GRID.end, horizon=HORIZON)
    for env, expected in ((GRID, False), (slow, True)):
        task = goal_env(env, GOALS[0], RADIUS)
        assert [each.slow_to_compile for each in (task, skill_action_env(task, POLICY, HOLD), timed_env(env))] == [
            expected
        ] * 3

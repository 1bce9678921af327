"""Controllers over skills, in a grid whose skills are known: always left, right, up or down."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillPolicy
from edl.hierarchy import ControlConfig, controller, flat, play_tasks, zero_shot
from edl.hierarchy.controller import succeeded
from edl.hierarchy.envs import goal_world, skill_world
from edl.envs.gridworld import gridworld
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import identity
from edl.program import execute
from tests.compiling import jit

KEY = jax.random.key(0)
SIZE, HORIZON, HOLD = 9, 12, 4
GRID = gridworld(SIZE, SIZE, HORIZON)
RIGHT, UP = 1, 2
CODES = 50.0 * jnp.eye(4)
POLICY = SkillPolicy(
    MLP([jnp.concatenate([jnp.zeros((2, 4)), jnp.eye(4)])], [jnp.zeros(4)]), identity(2), Categorical(4), CODES
)
GOALS = jnp.array([[4.0, 4.0], [4.0, 0.0]])
RADIUS = jnp.full(2, 0.5)
SMALL = ControlConfig(env_steps=4800, hold=HOLD, rollouts=20, epochs=4, minibatches=2, hidden=(16,), learning_rate=0.02)


def test_a_goal_ends_the_episode():
    world = goal_world(GRID, jnp.array([1.0, 0.0]), RADIUS)
    state = world.reset(KEY)
    assert not world.step(KEY, state, jnp.int32(UP)).terminated
    assert world.step(KEY, state, jnp.int32(RIGHT)).terminated
    assert (world.horizon, world.action_space) == (GRID.horizon, GRID.action_space)


def test_a_skill_is_held_and_an_end_on_the_way_is_the_end():
    world = skill_world(goal_world(GRID, jnp.array([2.0, 0.0]), RADIUS), POLICY, HOLD)
    assert (world.horizon, world.action_space.n) == (HORIZON // HOLD, 4)
    state = world.reset(KEY)
    right, up = (world.step(KEY, state, jnp.int32(action)) for action in (RIGHT, UP))
    np.testing.assert_array_equal(right.observation, [HOLD, 0])
    np.testing.assert_array_equal(up.observation, [0, HOLD])
    assert right.terminated
    assert not up.terminated


@pytest.fixture(scope="module")
def learned():
    return jit(lambda key: execute(controller(GRID, POLICY, GOALS, RADIUS, SMALL), key))(KEY)


def test_a_controller_learns_to_chain_skills(learned):
    controllers, metrics = learned

    def task(goal):
        return skill_world(goal_world(GRID, goal, RADIUS), POLICY, HOLD)

    episodes = jit(lambda key: play_tasks(key, controllers, task, GOALS, 40))(KEY)
    success = np.mean(succeeded(episodes), axis=1)
    assert (success > 0.8).all()
    assert metrics["success"][-1] > metrics["success"][0]
    first = np.asarray(episodes.actions)[0]
    assert set(first[:, :2].ravel()) >= {RIGHT, UP}


def test_both_learners_take_the_same_steps(learned):
    over_skills, alone = (
        controller(GRID, POLICY, GOALS, RADIUS, SMALL),
        flat(GRID, identity(2), GOALS, RADIUS, SMALL),
    )
    wanted = SMALL.env_steps * len(GOALS)
    assert over_skills.iterations * over_skills.env_steps == alone.iterations * alone.env_steps == wanted


def test_the_null_model_keeps_one_skill():
    won = jit(lambda key: zero_shot(key, GRID, POLICY, jnp.array([RIGHT, RIGHT]), GOALS, RADIUS, 5))(KEY)
    np.testing.assert_array_equal(won, [0.0, 1.0])

"""METRA's tasks in envs whose paths are known, and a controller that learns one of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.config import ConfigError
from edl.envs.clock import time_left, timed_env
from edl.hierarchy.tasks import TASKS, TaskConfig, check_task, hurdles_passed, learn_task, next_goal, task_env, within
from edl.program import run_program
from edl.runs.tasks import reach_of
from tests.compiling import jit
from tests.probes.plane import goes_by_code, goes_to_code, linear_policy, mortal, plane

CONFIG = TaskConfig(
    hold=4, reach=10.0, rollouts=32, env_steps=32 * 16 * 12, minibatches=2, hidden=(16,), learning_rate=1e-2
)
KEY = jax.random.key(0)


def play(task, actions):
    """The rewards of some actions, and the state after the last one."""
    state, rewards = task.reset(KEY), []
    for i, action in enumerate(actions):
        step = task.step(jax.random.fold_in(KEY, i), state, jnp.asarray(action))
        state = step.state
        rewards.append(float(task.features(step.observation)[0]))
    return rewards, state


def test_a_goal_counts_within_three_units():
    assert within(jnp.array([0.0, 3.0]), jnp.zeros(2)) == 1
    assert within(jnp.array([0.1, 3.0]), jnp.zeros(2)) == 0


def test_goals_change_every_50_steps_and_stay_within_seven_and_a_half_of_the_previous_one():
    goal, seen = jnp.zeros(2), []
    for time in range(200):
        goal = next_goal(jax.random.fold_in(KEY, time), goal, jnp.int32(time), jnp.zeros(2))
        seen.append(np.asarray(goal))
    changes = np.flatnonzero(np.any(np.diff(seen, axis=0) != 0, axis=1)) + 1
    assert changes.tolist() == [49, 99, 149, 199]
    assert np.abs(seen[99] - seen[49]).max() <= 7.5


def test_each_hurdle_counts_once():
    task = task_env(plane(1, 16), "half_cheetah_hurdle", CONFIG, goes_by_code(1, jnp.array([[1.0], [-1.0]])))
    # From 0.5, four steps forwards reach 4.5, 8.5 and 12.5; four steps back give one hurdle back.
    rewards, state = play(task, [0, 0, 0, 1])
    assert rewards == [1, 1, 1, -1]
    assert float(state.inner.position[0]) == 8.5
    assert int(hurdles_passed(jnp.array([30.0]))) == 7


def test_a_skill_is_held_and_its_rewards_are_summed():
    policy = goes_to_code(1, jnp.array([[0.0]]))
    task = task_env(plane(1, 16), "half_cheetah_goal", CONFIG, policy, "goals")
    assert (task.horizon, task.observation_size) == (4, 5)
    state = task.reset(KEY)._replace(kept=jnp.array([4.5]))
    step = task.step(KEY, state, jnp.array([0.3]))  # the goal 0.5 + 10 * 0.3 = 3.5, which takes 3 steps
    assert float(step.state.inner.position[0]) == pytest.approx(3.5)
    # At 1.5, 2.5, 3.5 and 3.5, the goal at 4.5 is within 3 units.
    assert float(task.features(step.observation)[0]) == 4
    np.testing.assert_allclose(step.observation, [3.5, 4.0, 1.0, 0.25, 4.0])


def test_directions_have_unit_length():
    task = task_env(plane(2, 16), "ant_multi_goal", CONFIG, goes_by_code(2, jnp.eye(2)), "directions")
    _, state = play(task, [[0.3, 0.4]])
    np.testing.assert_allclose(state.inner.position, [0.5 + 4 * 0.6, 0.5 + 4 * 0.8], rtol=1e-5)


def test_without_skills_an_action_is_one_of_the_env():
    task = task_env(plane(1, 16), "half_cheetah_goal", CONFIG)
    assert (task.hold, task.horizon) == (1, 16)
    _, state = play(task, [[1.0], [1.0], [-0.5]])
    assert float(state.inner.position[0]) == 2


def test_a_controller_learns_to_pass_the_hurdles():
    task = task_env(plane(1, 16), "half_cheetah_hurdle", CONFIG, goes_by_code(1, jnp.array([[1.0], [-1.0]])))
    program = learn_task(task, CONFIG)
    assert (program.iterations, program.env_steps) == (12, 32 * 16)
    scores = jax.jit(lambda key: run_program(program, key)[1]["score"])(KEY)
    assert float(jnp.mean(scores[:2])) < 2
    assert float(jnp.mean(scores[-3:])) > 3.5  # the best is 4 hurdles in 16 steps


def test_ppo_without_skills_plays_parts_of_episodes():
    program = learn_task(task_env(plane(1, 16), "half_cheetah_hurdle", CONFIG), CONFIG)
    assert (program.iterations, program.env_steps) == (48, 32 * 4)


def test_a_task_that_does_not_fit_is_rejected():
    with pytest.raises(ConfigError, match=r"'ant_multi_goal' needs an env with 2 features \(got env 'line' with 1\)"):
        check_task("ant_multi_goal", plane(1), "line")
    with pytest.raises(ConfigError, match="Did you mean 'half_cheetah_goal'"):
        check_task("half_cheetah_gaol", plane(1), "line")
    assert all(task.description for task in TASKS.values())
    assert dataclasses.asdict(TaskConfig())["hold"] == 25


def test_a_controller_may_name_goals_twice_as_far_as_a_skill_goes():
    assert reach_of(States(jnp.full((100, 1), 84.0)), share=25 / 200) == 2 * 84 * 25 / 200
    assert reach_of(None, share=25 / 200) == 10


def test_an_episode_that_has_ended_earns_nothing():
    policy = goes_by_code(1, jnp.array([[1.0]]))
    task = task_env(mortal(plane(1, 16), end=2.0), "half_cheetah_goal", CONFIG, policy)
    step = task.step(KEY, task.reset(KEY)._replace(kept=jnp.array([3.0])), jnp.int32(0))
    # At 1.5 and 2.5, the goal at 3 is within 3 units. The episode ends at 2.5, in the second of four steps.
    assert float(task.features(step.observation)[0]) == 2
    assert float(step.state.inner.position[0]) == 2.5
    assert step.terminated
    assert not step.truncated
    alive = task_env(mortal(plane(1, 16), end=9.0), "half_cheetah_goal", CONFIG, policy)
    assert not alive.step(KEY, alive.reset(KEY), jnp.int32(0)).terminated


def test_the_score_counts_no_steps_after_the_end():
    """Hurdles are at 3, 7 and so on. With one skill, all episodes go from 0.5 to 4.5 and end there."""
    policy = goes_by_code(1, jnp.array([[1.0]]))
    program = learn_task(task_env(mortal(plane(1, 16), end=4.5), "half_cheetah_hurdle", CONFIG, policy), CONFIG)
    _, metrics = jit(program.step)(program.init(KEY), KEY)
    assert float(metrics["score"]) == 1


def test_a_timed_skill_is_shown_the_time_until_the_next_choice():
    """The action is the time left, as the policy sees it."""
    inner = timed_env(plane(1, 16))
    weights = jnp.array([[0.0], [0.0], [1.0], [0.0]])
    task = task_env(inner, "half_cheetah_goal", CONFIG, linear_policy(weights, jnp.zeros((1, 1)), horizon=16))
    state = task.step(KEY, task.reset(KEY), jnp.int32(0)).state
    moved = state.inner.inner.position[0] - 0.5
    np.testing.assert_allclose(moved, time_left(jnp.array([4, 3, 2, 1]), 16).sum(), rtol=1e-5)

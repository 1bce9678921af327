"""The metrics of a seed in worlds where the answer is known."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from edl.artifacts import Experience
from edl.envs import layouts
from edl.envs.base import Discrete, Env, Step
from edl.envs.maze import Maze
from edl.envs.maze import maze as make_maze
from edl.evaluate import (
    box_yardstick,
    maze_yardstick,
    random_baseline,
    rollouts,
    summarise,
    summarise_data,
    summarise_seeds,
)
from edl.evaluate.evaluate import last_states

CORRIDOR = layouts.load("corridor_center")


class GoTo(eqx.Module):
    """A policy whose code is a place: it walks there and stays."""

    def act(self, key, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Array:
        return code - observation


class Counter(Env):
    """0, 1, 2, ... in steps of the action; terminates above 3."""

    horizon: int = eqx.field(static=True, default=6)
    observation_size: int = eqx.field(static=True, default=1)
    feature_size: int = eqx.field(static=True, default=1)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def reset(self, key):
        return jnp.zeros(1)

    def step(self, key, state, action) -> Step:
        state = state + action
        return Step(state, state, state[0] > 3, jnp.bool_(False))

    def observe(self, state):
        return state

    def features(self, observation):
        return observation


class Stride(eqx.Module):
    """A policy whose code is the action."""

    def act(self, key, observation, code) -> Array:
        return code[0].astype(jnp.int32)


@pytest.fixture(scope="module")
def corridor() -> Maze:
    return make_maze(CORRIDOR)


@pytest.fixture(scope="module")
def yardstick():
    return maze_yardstick(CORRIDOR)


def test_perfect_skills_in_the_corridor(corridor, yardstick):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4)
    assert episodes.features.shape == (2, 4, corridor.horizon + 1, 2)
    assert episodes.skill.index[:, 0].tolist() == [0, 1]
    numbers = summarise(yardstick, episodes)
    assert numbers["skill_coverage"] == 1.0
    assert numbers["goal_distance"] == pytest.approx(0.0, abs=1e-3)
    assert numbers["goal_success"] == 1.0
    # In a corridor nothing is in the way: the least of two straight lines.
    expected = np.linalg.norm(yardstick.targets[:, None] - np.asarray(goals), axis=-1).min(axis=1).mean()
    assert numbers["zero_shot_distance"] == pytest.approx(expected, abs=1e-3)
    # Both skills share only the start cell.
    assert 0.9 * math.log(2) < numbers["mutual_information"] < math.log(2)


def test_skills_that_do_the_same_share_no_information(corridor, yardstick):
    goals = jnp.array([[5.0, 0.0], [5.0, 0.0]])
    numbers = summarise(yardstick, rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4))
    assert numbers["mutual_information"] < 0.02
    assert numbers["skill_coverage"] == pytest.approx(6 / 11)


def test_a_seed_alone_is_that_seed_among_others(corridor, yardstick):
    goals = jnp.array([[[-5.0, 0.0], [0.0, 0.0]], [[5.0, 0.0], [3.0, 0.0]]])
    keys = jax.random.split(jax.random.key(1), 2)
    both = jax.vmap(lambda key, goal: rollouts(key, corridor, GoTo(), goal, goal, num=4))(keys, goals)
    alone = rollouts(keys[1], corridor, GoTo(), goals[1], goals[1], num=4)
    np.testing.assert_array_equal(both.features[1], alone.features)
    numbers = summarise_seeds(yardstick, both)
    assert numbers[1] == summarise(yardstick, alone)
    assert numbers[0] != numbers[1]


def test_rollouts_start_and_act_differently(corridor):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(2), corridor, GoTo(), goals, goals, num=4)
    starts = np.asarray(episodes.features[:, :, 0]).reshape(-1, 2)
    assert len(np.unique(starts, axis=0)) == 8


def test_steps_after_a_termination_do_not_count():
    """With strides of 2 the world ends in 4, after two steps; what is played on is 6, 8, ..."""
    yardstick = box_yardstick(np.arange(11.0)[:, None], dims=[0], bounds=([-0.5], [10.5]), coarse=11, fine=11)
    codes = jnp.array([[0.0], [1.0], [2.0]])
    episodes = rollouts(jax.random.key(0), Counter(), Stride(), codes, jnp.array([[0.0], [4.0], [5.0]]), num=2)
    assert last_states(episodes)[:, 0, 0].tolist() == [0.0, 4.0, 4.0]
    numbers = summarise(yardstick, episodes)
    assert numbers["skill_coverage"] == pytest.approx(5 / 11)
    assert numbers["goal_distance"] == pytest.approx(1 / 3)
    assert numbers["goal_success"] == pytest.approx(2 / 3)
    assert numbers["zero_shot_distance"] == pytest.approx(np.mean([0, 1, 2, 1, 0, 1, 2, 3, 4, 5, 6]))
    assert "dimension 0" in yardstick.about


def test_random_actions_of_both_kinds(corridor, yardstick):
    numbers = random_baseline(jax.random.key(0), corridor, 3, yardstick, num=5)
    assert numbers["goal_success"] is None
    assert 0 < numbers["skill_coverage"] <= 1
    assert 0 <= numbers["mutual_information"] < math.log(3)
    # Staying at the start costs about 2.8; a random walk is not better than a good skill in each half.
    assert 1.5 < numbers["zero_shot_distance"] < 5.5
    line = box_yardstick(np.arange(11.0)[:, None], dims=[0])
    assert random_baseline(jax.random.key(0), Counter(), 2, line)["skill_coverage"] > 0.3


def test_the_grid_of_a_box_holds_the_states_that_span_it():
    yardstick = box_yardstick(np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 9.0]]), dims=[1])
    bins = yardstick.bins.bin_of(jnp.asarray(yardstick.targets, jnp.float32))
    assert bins.tolist() == [0, 25, 49]


def test_targets_are_uniform_over_the_cells_and_always_the_same():
    layout = layouts.load("square")
    one, other = maze_yardstick(layout), maze_yardstick(layout)
    np.testing.assert_array_equal(one.targets, other.targets)
    assert one.targets.shape == (1000, 2)
    counts = np.unique(np.rint(one.targets), axis=0, return_counts=True)[1]
    assert len(counts) == len(layout.cells)
    assert counts.min() > 25  # 1000 / 17 cells = 59 expected


def test_data_metrics_of_an_explorer_and_of_an_oracle(yardstick):
    paths = jnp.zeros((3000, 51, 2)).at[2500:, 1:].set(jnp.array([4.0, 0.0]))
    experience = Experience(paths, jnp.zeros((3000, 50, 2)), jnp.full(3000, 50))
    numbers = summarise_data(yardstick, experience)
    one_bin = 1 / (11 * 400)
    assert numbers == {"data_coverage": pytest.approx(2 * one_bin), "data_coverage_100k": pytest.approx(one_bin)}
    assert summarise_data(yardstick, None) == {"data_coverage": None, "data_coverage_100k": None}

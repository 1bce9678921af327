"""The metrics of a seed in envs where the answer is known."""

import dataclasses
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
    METRICS,
    box_evaluator,
    maze_evaluator,
    rollouts,
    skill_results,
    summarise,
    summarise_data,
)
from edl.evaluate.floor import METRICS_OF_FLOOR
from edl.evaluate.skill_rollouts import last_states, uniform_policy
from edl.evaluate.summary import bounds_of

CORRIDOR = layouts.load("corridor_center")


class GoTo(eqx.Module):
    """A policy whose code is a target position: it walks there and stays."""

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
def evaluator():
    return maze_evaluator(CORRIDOR)


def test_perfect_skills_in_the_corridor(corridor, evaluator):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4)
    assert episodes.features.shape == (2, 4, corridor.horizon + 1, 2)
    assert episodes.skill.index[:, 0].tolist() == [0, 1]
    numbers = summarise(evaluator, episodes)
    assert numbers["skill_coverage"] == 1.0
    assert numbers["goal_distance"] == pytest.approx(0.0, abs=1e-3)
    assert numbers["goal_success"] == 1.0
    # In a corridor the walking distance is the straight one: the smaller of two straight lines.
    expected = np.linalg.norm(evaluator.targets[:, None] - np.asarray(goals), axis=-1).min(axis=1).mean()
    assert numbers["best_skill_distance"] == pytest.approx(expected, abs=1e-3)
    # Both skills share only the start cell.
    assert 0.9 * math.log(2) < numbers["mutual_information"] < math.log(2)


def test_identical_skills_have_no_mutual_information(corridor, evaluator):
    goals = jnp.array([[5.0, 0.0], [5.0, 0.0]])
    numbers = summarise(evaluator, rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4))
    assert numbers["mutual_information"] < 0.02
    assert numbers["skill_coverage"] == pytest.approx(6 / 11)


def test_one_seed_alone_equals_that_seed_in_the_vmap(corridor, evaluator):
    goals = jnp.array([[[-5.0, 0.0], [0.0, 0.0]], [[5.0, 0.0], [3.0, 0.0]]])
    keys = jax.random.split(jax.random.key(1), 2)
    both = jax.vmap(lambda key, goal: rollouts(key, corridor, GoTo(), goal, goal, num=4))(keys, goals)
    alone = rollouts(keys[1], corridor, GoTo(), goals[1], goals[1], num=4)
    np.testing.assert_array_equal(both.features[1], alone.features)
    numbers = [summarise(evaluator, jax.tree.map(lambda leaf, seed=seed: leaf[seed], both)) for seed in range(2)]
    assert numbers[1] == summarise(evaluator, alone)
    assert numbers[0] != numbers[1]


def test_rollouts_have_different_starts(corridor):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(2), corridor, GoTo(), goals, goals, num=4)
    starts = np.asarray(episodes.features[:, :, 0]).reshape(-1, 2)
    assert len(np.unique(starts, axis=0)) == 8


def test_steps_after_a_termination_are_ignored():
    """With steps of 2 the episode terminates at 4, after two steps; the invalid states after it are 6, 8, ..."""
    evaluator = box_evaluator(np.arange(11.0)[:, None], dims=[0], bounds=([-0.5], [10.5]), coarse=11, fine=11)
    codes = jnp.array([[0.0], [1.0], [2.0]])
    episodes = rollouts(jax.random.key(0), Counter(), Stride(), codes, jnp.array([[0.0], [4.0], [5.0]]), num=2)
    assert last_states(episodes)[:, 0, 0].tolist() == [0.0, 4.0, 4.0]
    numbers = summarise(evaluator, episodes)
    assert numbers["skill_coverage"] == pytest.approx(5 / 11)
    assert numbers["goal_distance"] == pytest.approx(1 / 3)
    assert numbers["goal_success"] == pytest.approx(2 / 3)
    assert numbers["best_skill_distance"] == pytest.approx(np.mean([0, 1, 2, 1, 0, 1, 2, 3, 4, 5, 6]))
    assert "feature 0" in evaluator.coverage_over


def test_a_rollout_that_ends_behind_a_thin_wall_is_no_success():
    """Two rows of cells with a wall between them; skill 1 stays on the wrong side, skill 0 reaches its goal."""
    layout = layouts.parse("+-+-+-+\n|S    |\n+-+-+ +\n|     |\n+-+-+-+\n")
    evaluator, env = maze_evaluator(layout), make_maze(layout)
    codes, goals = jnp.array([[1.0, 0.3], [0.0, -0.45]]), jnp.array([[1.0, 0.3], [0.0, -0.6]])
    episodes = rollouts(jax.random.key(0), env, GoTo(), codes, goals, num=3)
    straight = np.linalg.norm(last_states(episodes)[1] - np.asarray(goals[1]), axis=-1)
    assert straight.max() < 0.5  # by straight distance, skill 1 would succeed
    numbers, (first, second) = summarise(evaluator, episodes), skill_results(evaluator, episodes)
    assert (numbers["goal_success"], numbers["worst_skill_success"]) == (0.5, 0.0)
    assert numbers["goal_distance"] == pytest.approx((first["goal_distance"] + second["goal_distance"]) / 2)
    assert (first["goal_success"], second["goal_success"]) == (1.0, 0.0)
    # Round the end of the wall at (1.5, -0.5): 1.5 there, and 1.5 back.
    assert second["goal_distance"] == pytest.approx(3.0, abs=0.1)
    assert second["goal"] == pytest.approx([0.0, -0.6], abs=1e-3)
    assert second["end"] == pytest.approx([0.0, -0.45], abs=0.06)
    assert second["skill"] == 1


def test_skills_without_goals_have_ends_only(corridor, evaluator):
    episodes = rollouts(jax.random.key(0), corridor, GoTo(), jnp.array([[5.0, 0.0]]), None, num=2)
    (result,) = skill_results(evaluator, episodes)
    assert result.pop("end") == pytest.approx([5.0, 0.0], abs=1e-3)
    assert result == {
        "skill": 0,
        "goal": None,
        "goal_distance": None,
        "goal_success": None,
        "rollouts": len(episodes.valid[0]),
    }


def test_zero_shot_distance_uses_the_picked_skills(corridor, evaluator):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4)
    assert "zero_shot_distance" not in summarise(evaluator, episodes)
    best = (evaluator.targets[:, 0] > 0).astype(int)
    numbers = summarise(evaluator, episodes, best)
    assert numbers["zero_shot_distance"] == pytest.approx(numbers["best_skill_distance"], abs=1e-3)
    assert summarise(evaluator, episodes, 1 - best)["zero_shot_distance"] > 5


def test_distances_name_their_unit():
    states = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 9.0]])
    assert maze_evaluator(CORRIDOR).distance_unit == "cells"
    assert box_evaluator(states, dims=[1], unit=states.std(axis=0)).distance_unit == "standard deviations"


def test_every_metric_is_in_the_table(corridor, evaluator):
    goals = jnp.array([[-5.0, 0.0], [5.0, 0.0]])
    episodes = rollouts(jax.random.key(0), corridor, GoTo(), goals, goals, num=4)
    picks = np.zeros(len(evaluator.targets), int)
    names = {
        *summarise(evaluator, episodes, picks),
        *summarise_data(evaluator, None),
        "discriminability",
        *METRICS_OF_FLOOR,
    }
    assert names == METRICS.keys()


def act_at_random(evaluator, env, num_skills, num):
    """The metrics of "skills" that all act at random."""
    codes = jnp.zeros((num_skills, 1))
    return summarise(evaluator, rollouts(jax.random.key(0), env, uniform_policy(env), codes, None, num))


def test_random_baseline_with_continuous_and_discrete_actions(corridor, evaluator):
    numbers = act_at_random(evaluator, corridor, 3, num=5)
    assert numbers["goal_success"] is None
    assert 0 < numbers["skill_coverage"] <= 1
    assert 0 <= numbers["mutual_information"] < math.log(3)
    # Staying at the start leaves about 2.8; a random walk is no better than a good skill in each half.
    assert 1.5 < numbers["best_skill_distance"] < 5.5
    line = box_evaluator(np.arange(11.0)[:, None], dims=[0])
    assert act_at_random(line, Counter(), 2, num=20)["skill_coverage"] > 0.3


def test_the_grid_of_a_box_contains_the_states_that_span_it():
    evaluator = box_evaluator(np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 9.0]]), dims=[1])
    bins = evaluator.bins.bin_of(jnp.asarray(evaluator.targets, jnp.float32))
    assert bins.tolist() == [0, 25, 49]


def test_a_constant_feature_has_a_grid_too():
    states = np.array([[0.0, 7.0], [2.0, 7.0], [1.0, 7.0]])
    low, high = bounds_of(states)
    np.testing.assert_allclose([low, high], [[-0.002, 6.5], [2.002, 7.5]])
    evaluator = box_evaluator(states, dims=[0, 1])
    bins = evaluator.bins.bin_of(jnp.asarray(states, jnp.float32))
    assert (np.asarray(bins) < evaluator.bins.size).all()


def test_targets_are_uniform_over_the_cells_and_reproducible():
    layout = layouts.load("square")
    one, other = maze_evaluator(layout), maze_evaluator(layout)
    np.testing.assert_array_equal(one.targets, other.targets)
    assert one.targets.shape == (1000, 2)
    counts = np.unique(np.rint(one.targets), axis=0, return_counts=True)[1]
    assert len(counts) == len(layout.cells)
    assert counts.min() > 25  # 1000 / 17 cells = 59 expected


def test_data_metrics_of_an_explorer_and_of_an_oracle(evaluator):
    paths = jnp.zeros((3000, 51, 2)).at[2500:, 1:].set(jnp.array([4.0, 0.0]))
    experience = Experience(paths, jnp.zeros((3000, 50, 2)), jnp.full(3000, 50))
    numbers = summarise_data(evaluator, experience)
    one_bin = 1 / (11 * 400)
    assert numbers == {"data_coverage": pytest.approx(2 * one_bin), "data_coverage_100k": pytest.approx(one_bin)}
    assert summarise_data(evaluator, None) == {"data_coverage": None, "data_coverage_100k": None}
    sample = dataclasses.replace(experience, sampled=True)  # which of all steps were the first is not recorded
    assert summarise_data(evaluator, sample) == {**numbers, "data_coverage_100k": None}

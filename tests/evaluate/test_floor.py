"""The protocol of robots in the open, with policies whose paths are known: a = z, and a = z - x."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import TargetAsGoal
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.skill_priors import sample_direction
from edl.envs import layouts
from edl.envs.gridworld import gridworld
from edl.evaluate import floor
from edl.evaluate.floor import (
    NUM_ROLLOUTS,
    Trials,
    coverage_of,
    directed_coverage,
    goal_result,
    measure_floor,
    playable,
    steer,
)
from edl.interop.env_names import make_env
from edl.nets.mlp import MLP
from tests.probes.plane import goes_by_code, goes_to_code, plane

SIDES = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
IDENTITY = MLP([jnp.eye(2)], [jnp.zeros(2)], jax.nn.relu)
KEYS = jax.random.split(jax.random.key(0), 2)


def stacked(tree):
    """Two seeds with the same arrays."""
    return jax.tree.map(lambda x: jnp.stack([x, x]), tree)


def measured(policy, env=None, samples=None):
    env = plane() if env is None else env
    play = jax.jit(lambda trials: floor.play_seeds_trials(KEYS, env, stacked(policy), trials))
    return measure_floor(KEYS, env, stacked(policy), None, samples, lambda trials: np.asarray(play(trials)))


def test_coverage_counts_unique_floor_cells():
    paths = np.array([[[0.2, 0.9], [0.8, 0.1], [-0.1, 0.5]], [[0.5, 0.5], [1.0, 0.5], [-0.9, 0.0]]])
    assert coverage_of(paths) == 3  # (0, 0), (-1, 0) and (1, 0)
    assert coverage_of(paths[..., :1]) == 3


def test_goals_count_by_the_end_of_the_rollout():
    told = np.array([[[0.0], [5.0], [4.1]], [[0.0], [0.5], [9.0]]])
    result = goal_result(told, np.array([[5.0], [2.0]]))
    assert result == {
        "radius": 5,
        "within_1": 0.5,
        "within_3": 0.5,
        "passed_1": 0.5,
        "passed_3": 1,
        "distance": pytest.approx(3.95),
        "cells": 4,
    }


def test_four_straight_skills_cover_a_cross():
    result, other = measured(goes_by_code(2, SIDES))
    assert result["floor_coverage"] == other["floor_coverage"] == 1 + 4 * 8
    assert 10 < result["random_floor_coverage"] < 100
    assert (result["low"], result["high"]) == ([-7.5, -7.5], [8.5, 8.5])
    assert result["radius"] == 8
    # Without a rule, a goal gets the skill whose rollout ends nearest, and that ends 8 units away from the start.
    assert result["told_by"] == "the skill whose coverage rollouts end nearest"
    assert result["goals"]["reached"]["radius"] < 10
    assert result["goals"]["far"]["within_3"] < 0.2


def test_a_goal_policy_is_told_states_of_the_visited_set_and_reaches_those_in_time():
    samples = stacked(jnp.array([[3.0, 4.0], [-5.0, 2.0]]))
    result, _ = measured(goes_to_code(2, jnp.zeros((1, 2)), pick=TargetAsGoal()), samples=samples)
    assert result["told_by"] == "the goal g"
    # Two goals: 4 diagonal moves to (3, 4) and 6 moves to (-5, 2), of which the first two are diagonal.
    assert result["floor_coverage"] < 20
    found = result["goals"]["reached"]
    assert (found["within_1"], found["within_3"], found["passed_3"]) == (1, 1, 1)
    assert found["radius"] == pytest.approx(29**0.5)
    assert found["distance"] == pytest.approx(0, abs=1e-5)
    assert 0 < result["goals"]["disc"]["within_1"] < 1
    assert result["goals"]["far"]["radius"] > 50


def test_directions_are_goals_out_of_reach_of_the_visited_set():
    samples = stacked(jnp.array([[3.0, 4.0], [-1.0, 2.0]]))
    result, _ = measured(goes_to_code(2, jnp.zeros((1, 2)), pick=TargetAsGoal()), samples=samples)
    found = result["goals"]["directions"]
    # The start is (0.5, 0.5), so the farthest state is 18.5^0.5 away.
    assert 1.25 * 18.5**0.5 <= found["radius"] <= 1.25 * 18.5**0.5 + 0.5**0.5
    assert found["cells"] > 3 * result["floor_coverage"]
    goals = floor.goals_out_of_reach(0, None, np.zeros((4, 3, 1)) + np.array([0.0, 2.0, -4.0])[:, None])
    assert sorted(set(goals[:, 0])) == [-5.0, 5.0]


def test_metra_is_steered_in_every_step():
    rule = DirectionOfTarget(IDENTITY, jnp.zeros(2), discrete=False)
    result, _ = measured(goes_by_code(2, SIDES, pick=rule))
    # phi is the identity, so every step goes 1 unit straight towards the goal: in the end it circles around it.
    assert result["told_by"].startswith("the direction phi(g) - phi(s_t)")
    assert result["goals"]["reached"]["within_1"] > 0.95
    assert result["floor_coverage"] > 33 + 20  # random directions, not the four examples
    discrete = dataclasses.replace(rule, discrete=True)
    policy = goes_by_code(2, jnp.eye(2), pick=discrete)
    code = steer(plane(), policy, jnp.array([1.0, 1.0, 0.0]), jnp.array([2.0, 9.0]), jnp.zeros(2))
    np.testing.assert_array_equal(code, [0.0, 1.0])


def test_a_line_has_one_feature_and_its_own_goals():
    result, _ = measured(goes_by_code(1, jnp.array([[1.0], [-1.0]])), env=plane(1))
    assert result["floor_coverage"] == 17
    assert (result["low"], result["high"]) == ([-7.5], [8.5])
    goals = floor.common_goals(1)
    assert 50 < np.abs(goals["far"]).max() <= 100
    assert 20 < np.abs(goals["disc"]).max() <= 25


def test_goals_are_uniform_in_the_disc_and_the_same_for_all_runs():
    goals = floor.common_goals(2)
    radii = np.linalg.norm(goals["disc"], axis=1)
    assert radii.max() <= 25
    assert np.mean(radii <= 25 / 2**0.5) == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(goals["far"], floor.common_goals(2)["far"])


def test_the_random_trials_ignore_the_skill():
    trials = Trials(jnp.ones((3, 2)), jnp.zeros((3, 2)), jnp.zeros(3, bool), jnp.array([False, True, False]))
    paths = jax.jit(lambda: floor.play_trials(KEYS[0], plane(), goes_by_code(2, SIDES), trials))()
    np.testing.assert_allclose(paths[0], paths[2])
    np.testing.assert_allclose(paths[0, -1], [8.5, 8.5])
    assert np.linalg.norm(paths[1, -1] - paths[0, -1]) > 1


def test_the_protocol_is_for_open_ground_with_one_or_two_features():
    assert floor.floor_protocol_applies(plane(), None)
    assert not floor.floor_protocol_applies(plane(), layouts.load("square"))
    assert not floor.floor_protocol_applies(plane(3), None)
    assert not floor.floor_protocol_applies(gridworld(5, 5, 8), None)
    assert NUM_ROLLOUTS == 48


@pytest.mark.parametrize(("features", "applies"), [("0", True), ("0,1", False), ("2", False), ("0,2", False)])
def test_the_protocol_is_for_places_and_not_for_heights_and_angles(features, applies):
    pytest.importorskip("mujoco.mjx")
    assert floor.floor_protocol_applies(make_env("half_cheetah", features=features), None) == applies


@pytest.mark.parametrize("count", [1, 4, 10, 16, 60])
def test_skills_are_played_equally_often_in_random_order(count):
    policy = goes_by_code(2, jnp.asarray(np.random.default_rng(0).normal(size=(count, 2)), jnp.float32))
    played = []
    for key in KEYS:
        codes = floor.random_codes(key, policy, None, None)[:NUM_ROLLOUTS]
        played.append(np.argmax(np.all(np.asarray(codes)[:, None] == np.asarray(policy.codes), axis=-1), axis=1))
        times = np.bincount(played[-1], minlength=count)
        assert set(times) <= {NUM_ROLLOUTS // count, -(-NUM_ROLLOUTS // count)}
    assert count == 1 or not np.array_equal(*played)


def test_directions_of_metra_are_draws_from_the_sphere():
    policy = goes_by_code(2, SIDES, pick=DirectionOfTarget(IDENTITY, jnp.zeros(2), discrete=False))
    codes = np.asarray(floor.random_codes(KEYS[0], policy, None, None))
    expected = [sample_direction(key, 2).code for key in jax.random.split(KEYS[0], floor.NUM_TRIALS)]
    np.testing.assert_allclose(codes, np.stack(expected), atol=1e-6)


def test_skills_with_goals_are_played_in_turn_and_measured_by_their_own_goals():
    policy = goes_by_code(2, SIDES)  # ends at (8, 0), (-8, 0), ... from the start in the middle of a cell
    ends = jnp.array([[8.5, 0.5], [-7.5, 0.5], [0.5, 8.5], [0.5, 30.0]])  # the last goal is on the other side
    result = measured(dataclasses.replace(policy, goals=ends))[0]["skills"]
    assert (result["within_1"], result["within_3"], result["passed_3"]) == (0.75, 0.75, 0.75)
    assert "skills" not in measured(policy)[0]


def test_one_thrown_robot_does_not_decide_how_far_directions_are():
    samples = np.zeros((1000, 2))
    samples[:, 0] = np.linspace(0, 10, 1000)
    samples[0] = 1e6
    paths = np.zeros((NUM_ROLLOUTS, 3, 2))
    goals = floor.goals_out_of_reach(0, samples, paths)
    assert np.allclose(np.linalg.norm(goals, axis=1), 1.25 * 10, rtol=0.02)


def test_directed_coverage_is_that_of_the_protocol():
    policy, env = dataclasses.replace(goes_to_code(2, jnp.zeros((1, 2))), pick=TargetAsGoal()), plane()
    samples = jnp.asarray(np.random.default_rng(0).uniform(-3, 3, size=(2, 64, 2)), jnp.float32)

    def play(trials):
        return np.asarray(floor.play_seeds_trials(KEYS, env, stacked(policy), trials))

    whole = measure_floor(KEYS, env, stacked(policy), None, samples, play)
    paths, _ = floor.play_coverage(KEYS, env, stacked(policy), None, samples, play)
    found = directed_coverage(samples, paths, play)
    assert found == [each["goals"]["directions"]["cells"] for each in whole]


def test_policies_that_differ_in_what_trials_do_not_use_are_one_program():
    explorer = dataclasses.replace(goes_to_code(2, jnp.zeros((1, 2))), model=IDENTITY)
    skills = dataclasses.replace(goes_to_code(2, jnp.zeros((1, 2))), codes=SIDES, goals=SIDES)
    shapes = [jax.eval_shape(playable, each) for each in (explorer, skills)]
    assert jax.tree.structure(shapes[0]) == jax.tree.structure(shapes[1])
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])
    steered = dataclasses.replace(explorer, pick=DirectionOfTarget(IDENTITY, jnp.zeros(2), discrete=False))
    assert playable(steered).model is not None  # METRA needs it in every step

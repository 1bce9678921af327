"""The verdict says "better than random" if and only if the skills are, and every claim has an interval."""

import numpy as np
import pytest

from edl.evaluate import versus_random
from edl.evaluate.versus_random import Behaviour, aggregate_comparisons, compare_with_random

SKILLS, ROLLOUTS, CELLS, POINTS = 4, 20, 30, 8


def visits(cells, generator) -> np.ndarray:
    """Visit counts where the rollouts of a skill visit cells drawn from its row of ``cells``, none outside the grid."""
    counts = np.zeros((SKILLS, ROLLOUTS, CELLS + 1), int)
    for skill, choices in enumerate(cells):
        for rollout in range(ROLLOUTS):
            np.add.at(counts[skill, rollout], generator.choice(choices, 12), 1)
    return counts


def behaviour(apart: bool, success: float | None, distance: float, seed: int = 0) -> Behaviour:
    """Rollouts of skills that visit different cells or the same, with this success and this mean distance."""
    generator = np.random.default_rng(seed)
    cells = [range(6 * i, 6 * i + 6) if apart else range(6) for i in range(SKILLS)]
    reached = None if success is None else generator.uniform(size=(SKILLS, ROLLOUTS)) < success
    distances = distance + generator.uniform(-0.1, 0.1, (SKILLS, ROLLOUTS, POINTS))
    return Behaviour(visits(cells, generator), distances, reached)


RANDOM = behaviour(False, 0.05, 3.0, seed=1)


def compared(skills: Behaviour, random: Behaviour = RANDOM) -> dict:
    found = aggregate_comparisons([compare_with_random(skills, random)])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("skills", "begins"),
    [
        (behaviour(False, 1.0, 1.0), "no better than random: the skills cannot be distinguished"),
        (behaviour(True, 0.9, 1.0), "better than random: the skills differ, and reach their goals more often (0."),
        (behaviour(True, 0.01, 1.0), "partly better than random: the skills differ, and do not reach their goals more"),
    ],
)
def test_verdict(skills, begins):
    assert compared(skills)["verdict"].startswith(begins)


def test_skills_that_share_the_way_and_differ_at_the_end_are_told_apart():
    same_way = behaviour(False, 1.0, 1.0)
    ends = np.zeros((SKILLS, ROLLOUTS, CELLS + 1), int)
    ends[:, :, :SKILLS] = np.eye(SKILLS, dtype=int)[:, None]
    assert compared(same_way._replace(ends=ends))["verdict"].startswith("better than random: the skills differ")
    ends = np.random.default_rng(0).permutation(ends.reshape(-1, CELLS + 1)).reshape(ends.shape)
    assert compared(same_way._replace(ends=ends))["verdict"].startswith("no better than random")


def test_skills_that_reach_fewer_goals_than_random_are_not_better():
    found = compared(behaviour(True, 0.0, 4.0))
    goals, nearer = found["claims"]["goals"], found["claims"]["nearer"]
    assert not goals["holds"]
    assert goals["difference"] == pytest.approx(goals["skills"] - goals["random"])
    assert goals["ci95"][0] < 0
    assert not nearer["holds"]
    assert nearer["difference"] == pytest.approx(nearer["random"] - nearer["skills"])
    assert "do not reach their goals more often" in found["verdict"]


def test_without_goals_the_skills_have_to_end_nearer():
    random = RANDOM._replace(reached=None)
    near = compared(behaviour(True, None, 1.0), random)
    assert near["verdict"].startswith("better than random: the skills differ, and end nearer to a random point (0.9")
    assert "cells, random actions 2.9" in near["verdict"]
    assert "goals" not in near["claims"]
    far = compared(behaviour(True, None, 3.5), random)
    assert far["verdict"].startswith("partly better than random: the skills differ, and do not end nearer")


def test_the_interval_contains_the_difference_and_shrinks_with_rollouts():
    few = behaviour(True, 0.5, 1.0)
    many = Behaviour(*(np.concatenate([each] * 10, axis=1) for each in few[:3]))
    wide, narrow = (compared(each)["claims"]["goals"] for each in (few, many))
    for claim in (wide, narrow):
        assert claim["ci95"][0] < claim["difference"] < claim["ci95"][1]
    assert np.diff(narrow["ci95"]) < np.diff(wide["ci95"])


def test_the_interval_contains_the_difference_if_resampling_has_a_bias():
    """Of rollouts that end anywhere, the minimum over skills is lower in nearly every resample."""
    ends = np.random.default_rng(2).uniform(0, 10, (SKILLS, ROLLOUTS, POINTS))
    cells = [range(CELLS)] * SKILLS
    random = Behaviour(visits(cells, np.random.default_rng(3)), ends)
    claim = compared(behaviour(True, None, 1.0), random)["claims"]["nearer"]
    assert claim["ci95"][0] < claim["difference"] < claim["ci95"][1]


def test_random_behaviour_is_no_better_than_random_even_with_few_rollouts():
    for seed in range(10):
        generator = np.random.default_rng(seed)
        few = visits([range(CELLS)] * SKILLS, generator)[:, :3]
        alike = Behaviour(few, np.ones((SKILLS, 3, POINTS)))
        assert compared(alike, alike)["verdict"].startswith("no better")


def test_the_same_numbers_as_the_metrics():
    found = compare_with_random(behaviour(True, 0.9, 1.0), RANDOM)
    assert found.information == pytest.approx(np.log(SKILLS), abs=1e-6)
    assert 0 < found.by_chance < 0.5
    assert found.p_value == pytest.approx(1 / 200)
    coverage = found.differences["coverage"]
    assert (coverage.skills, coverage.random) == (24 / 30, 6 / 30)
    assert found.differences["goals"].skills == np.mean(behaviour(True, 0.9, 1.0).reached)


def test_over_seeds_all_skills_must_differ_and_means_are_reported():
    good, bad = (compare_with_random(behaviour(apart, 0.9, 1.0), RANDOM) for apart in (True, False))
    found = aggregate_comparisons([good, bad], over="x > 0")
    assert found["verdict"] == (
        "no better than random: the skills of 1 of 2 seeds cannot be distinguished by the states they visit"
    )
    found = aggregate_comparisons([good, good], over="x > 0")
    assert found["verdict"].startswith("better than random in the region x > 0: ")
    assert "end nearer to a random point of the region (" in found["verdict"]
    assert "region" not in aggregate_comparisons([good, good])["verdict"]
    assert found["claims"]["goals"]["skills"] == pytest.approx(good.differences["goals"].skills)
    assert aggregate_comparisons([]) is None


def test_a_skill_that_may_end_out_of_reach_is_infinitely_far_if_that_rollout_is_drawn():
    distances = np.array([[[1.0, 4.0], [3.0, np.inf]], [[5.0, 6.0], [5.0, 6.0]]])
    draws = np.array([[[2.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]])
    np.testing.assert_allclose(versus_random._distance(distances, draws), [(1 + 4) / 2, (2 + 6) / 2, (3 + 6) / 2])

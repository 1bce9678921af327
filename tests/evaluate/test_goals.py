import numpy as np
import pytest

from edl.evaluate.goals import goal_distance, goal_success, zero_shot_distance

LAST = np.array([[[0.0, 0.5], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.6]]])
GOALS = np.array([[0.0, 0.0], [1.0, 1.0]])


def test_goal_distance_by_hand():
    assert goal_distance(LAST, GOALS) == pytest.approx((0.5 + 5.0 + 0.0 + 0.6) / 4)


def test_goal_success_includes_its_border():
    assert goal_success(LAST, GOALS) == 0.5
    assert goal_success(LAST, GOALS, within=0.49) == 0.25


def test_zero_shot_takes_the_best_mean_and_not_the_best_rollout():
    # To the first target, skill 0 is at 0 or at 6 (mean 3), skill 1 always at 2; to the second, 1 and 5 (3), 4 and 4.
    distances = np.array([[[0.0, 1.0], [6.0, 5.0]], [[2.0, 4.0], [2.0, 4.0]]])
    assert zero_shot_distance(distances) == pytest.approx((2.0 + 3.0) / 2)

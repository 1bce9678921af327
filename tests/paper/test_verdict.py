"""The rules of the verdicts, with made-up numbers for which the claims hold and do not hold."""

import pytest

from edl.envs import make as make_env
from edl.paper import (
    bottleneck,
    corridor,
    goal_states,
    gridworld,
    interpolation,
    landscapes,
    mi_form,
    smm,
    tree_prior,
)
from edl.paper.interpolation import Errors
from edl.paper.verdict import Scores, all_hold, better, no_better, summary, within
from edl.runs.config import RunConfig
from edl.runs.result import Run

HIGH, LOW, MIXED = [0.9, 0.8, 1.0, 0.94], [0.1, 0.3, 0.2, 0.15], [0.05, 0.95, 0.1, 0.9]


def test_better_needs_a_clear_difference():
    def holds(x, y, **options):
        return better("claim", "score", Scores("x", x), Scores("y", y), **options).holds

    assert holds(HIGH, LOW)
    assert not holds(LOW, HIGH)
    assert not holds(MIXED, MIXED)
    assert holds(LOW, HIGH, lower=True)
    assert not holds(HIGH, LOW, lower=True)
    assert holds([1.0], [0.0])
    assert not holds([1.0], [1.0])


def test_no_better_uses_the_upper_end_of_the_interval():
    def holds(x, y):
        return no_better("claim", "score", Scores("x", x), Scores("y", y), slack=0.05).holds

    assert holds(LOW, HIGH)
    assert holds(HIGH, HIGH)
    assert not holds(HIGH, LOW)
    assert not holds(MIXED, [0.5] * 4)  # no gain on average, but the interval includes gains above the slack


def test_within_needs_the_whole_interval():
    assert within("claim", "score", Scores("x", HIGH), low=0.7).holds
    assert not within("claim", "score", Scores("x", MIXED), low=0.4).holds
    assert not within("claim", "score", Scores("x", HIGH), low=0.7, high=0.85).holds
    assert within("claim", "score", Scores("x", LOW), high=0.35).holds


def test_all_hold_needs_every_part():
    yes, no = (within("", "score", Scores("x", HIGH), low=bound) for bound in (0.5, 0.99))
    assert all_hold("claim", [yes, yes]).holds
    assert not all_hold("claim", [yes, no]).holds
    assert all_hold("claim", [yes, no]).measured.count("score") == 2


def test_the_text_of_a_verdict():
    verdict = better("It is better.", "score", Scores("ours", HIGH), Scores("theirs", LOW))
    assert (verdict.claim, verdict.seeds) == ("It is better.", 4)
    assert "ours 0.91 [" in verdict.measured
    assert "higher with probability 1.00" in verdict.measured
    assert summary([0.5]) == "0.5"
    assert set(verdict.to_json()) == {"claim", "measured", "holds", "seeds"}


def corridor_distances(baselines, ours):
    names = [*corridor.PAIRS, corridor.BETWEEN_EXPLORATIONS]
    return {name: {"transport": baselines if name in corridor.BASELINE_PAIRS else ours} for name in names}


@pytest.mark.parametrize(
    ("baselines", "ours", "expected"), [(HIGH, LOW, True), (LOW, HIGH, False), (HIGH, HIGH, False)]
)
def test_corridor(baselines, ours, expected):
    assert [verdict.holds for verdict in corridor.verdicts(corridor_distances(baselines, ours))] == [expected, expected]


def test_interpolation():
    errors = {"ours": {"all pairs": Errors(LOW, HIGH), "pairs without a wall between": Errors(HIGH, LOW)}}
    assert [verdict.holds for verdict in interpolation.verdicts(errors)] == [True, False]
    errors = {"ours": {"all pairs": Errors(LOW, HIGH), "pairs without a wall between": Errors([], [])}}
    assert len(interpolation.verdicts(errors)) == 1  # there may be no pair without a wall between


def test_landscapes():
    numbers = {
        "summits_unexplored": HIGH,
        "confidence_where_unexplored": HIGH,
        "spread": {"reverse_mi": HIGH, "siblings": LOW},
        "summit_to_goal": LOW,
        "deceptive": HIGH,
    }
    assert all(verdict.holds for verdict in landscapes.verdicts(10, numbers))
    opposite = {
        "summits_unexplored": [0.0, 0.0, 0.1, 0.0],
        "confidence_where_unexplored": LOW,
        "spread": {"reverse_mi": LOW, "siblings": HIGH},
        "summit_to_goal": HIGH,
        "deceptive": [0.0] * 4,
    }
    assert not any(verdict.holds for verdict in landscapes.verdicts(10, opposite))


def test_the_theory_holds_exactly():
    numbers = gridworld.extreme_rewards(gridworld.gridworld_landscape())
    assert [verdict.holds for verdict in gridworld.verdicts(numbers)] == [True, True]
    assert [verdict.holds for verdict in gridworld.verdicts({**numbers, "greatest_new": 0.01})] == [False, True]
    assert [verdict.holds for verdict in gridworld.verdicts({**numbers, "forms_differ": 0.01})] == [True, False]


def run_with(**metrics):
    """A run with the parts that verdicts read."""
    per_seed = [{name: values[i] for name, values in metrics.items()} for i in range(4)]
    return Run(config=RunConfig(), env=make_env("square"), layout=None, metrics={"per_seed": per_seed})


def test_tree_prior():
    near, far = run_with(best_skill_distance=LOW), run_with(best_skill_distance=HIGH)
    runs = {"forward_mi": far, "reverse_mi": far, "no_prior": near, "prior": near}
    half, all_right = [0.5, 0.45, 0.55, 0.5], [1.0, 1.0, 0.99, 1.0]
    shares = {"forward_mi": half, "reverse_mi": half, "no_prior": half, "prior": all_right}
    assert [verdict.holds for verdict in tree_prior.verdicts(runs, shares)] == [True, True, True]
    swapped = {"forward_mi": all_right, "reverse_mi": half, "no_prior": all_right, "prior": half}
    assert [verdict.holds for verdict in tree_prior.verdicts(runs, swapped)] == [False, False, False]


def test_form_of_the_mutual_information():
    forward_high, reverse_high = {"forward": HIGH, "reverse": LOW}, {"forward": LOW, "reverse": HIGH}
    claims = mi_form.verdicts(success=forward_high, own_region=forward_high, spread=reverse_high)
    assert [verdict.holds for verdict in claims] == [True] * 3
    claims = mi_form.verdicts(success=reverse_high, own_region=reverse_high, spread=forward_high)
    assert [verdict.holds for verdict in claims] == [False] * 3


def test_exploration_with_smm():
    near, far = run_with(best_skill_distance=LOW), run_with(best_skill_distance=HIGH)
    never = [0.0, 0.0, 0.01, 0.0]
    runs = {"forward_mi": far, "reverse_mi": far, "oracle": near, "smm": near}
    sides = {"forward_mi": never, "reverse_mi": never, "oracle": LOW, "smm": LOW}
    walls = {"oracle": LOW, "smm": HIGH}
    assert [verdict.holds for verdict in smm.verdicts(runs, sides, walls)] == [True] * 4
    runs = {"forward_mi": near, "reverse_mi": near, "oracle": far, "smm": far}
    sides, walls = {"forward_mi": LOW, "reverse_mi": LOW, "oracle": LOW, "smm": never}, {"oracle": HIGH, "smm": LOW}
    assert [verdict.holds for verdict in smm.verdicts(runs, sides, walls)] == [False] * 4


def test_bottleneck():
    near, far = {"best_skill_distance": LOW}, {"best_skill_distance": HIGH}
    few, many = {"skill_coverage": LOW}, {"skill_coverage": HIGH}
    failed, reached = {"goal_success": LOW}, {"goal_success": [0.99, 1.0, 0.98, 0.97]}
    partly = {"goal_success": [0.7, 0.6, 0.65, 0.7]}
    runs = {
        "forward_mi": run_with(**far, **few),
        "reverse_mi": run_with(**far, **few),
        "siblings": run_with(**near, **partly),
        "no_siblings": run_with(**far, **failed),
        "walking": run_with(**near, **reached),
        "ours": run_with(**near, **reached),
    }
    assert [verdict.holds for verdict in bottleneck.verdicts(runs, LOW)] == [True] * 5
    opposite = {
        "forward_mi": run_with(**near, **many),
        "reverse_mi": run_with(**near, **few),
        "siblings": run_with(**far, **failed),
        "no_siblings": run_with(**far, **partly),
        "walking": run_with(**far, **failed),
        "ours": run_with(**far, **reached),
    }
    assert [verdict.holds for verdict in bottleneck.verdicts(opposite, LOW)] == [False] * 5


def test_goals():
    assert goal_states.verdicts({"forward_mi": HIGH, "siblings": LOW, "ours": LOW})[0].holds
    assert not goal_states.verdicts({"forward_mi": LOW, "siblings": LOW, "ours": HIGH})[0].holds

"""The rules by which claims hold, on numbers made up in both directions."""

import pytest

from edl.envs import make as make_env
from edl.paper import (
    bottleneck,
    corridor,
    goals,
    gridworld,
    interpolation,
    landscapes,
    mi_form,
    smm,
    tree_prior,
)
from edl.paper.interpolation import Errors
from edl.paper.verdict import Scores, better, no_better, summary, together, within
from edl.runs.result import Run
from edl.runs.config import RunConfig

HIGH, LOW, MIXED = [0.9, 0.8, 1.0, 0.94], [0.1, 0.3, 0.2, 0.15], [0.05, 0.95, 0.1, 0.9]


def test_better_needs_a_clear_case():
    def holds(x, y, **how):
        return better("claim", "score", Scores("x", x), Scores("y", y), **how).holds

    assert holds(HIGH, LOW)
    assert not holds(LOW, HIGH)
    assert not holds(MIXED, MIXED)
    assert holds(LOW, HIGH, lower=True)
    assert not holds(HIGH, LOW, lower=True)
    assert holds([1.0], [0.0])
    assert not holds([1.0], [1.0])


def test_no_better_is_about_the_upper_end():
    def holds(x, y):
        return no_better("claim", "score", Scores("x", x), Scores("y", y), slack=0.05).holds

    assert holds(LOW, HIGH)
    assert holds(HIGH, HIGH)
    assert not holds(HIGH, LOW)
    assert not holds(MIXED, [0.5] * 4)  # no gain on average, but none that could be excluded


def test_within_is_about_the_whole_interval():
    assert within("claim", "score", Scores("x", HIGH), low=0.7).holds
    assert not within("claim", "score", Scores("x", MIXED), low=0.4).holds
    assert not within("claim", "score", Scores("x", HIGH), low=0.7, high=0.85).holds
    assert within("claim", "score", Scores("x", LOW), high=0.35).holds


def test_all_parts_must_hold():
    yes, no = (within("", "score", Scores("x", HIGH), low=bound) for bound in (0.5, 0.99))
    assert together("claim", [yes, yes]).holds
    assert not together("claim", [yes, no]).holds
    assert together("claim", [yes, no]).measured.count("score") == 2


def test_what_is_said():
    verdict = better("It is better.", "score", Scores("ours", HIGH), Scores("theirs", LOW))
    assert (verdict.claim, verdict.seeds) == ("It is better.", 4)
    assert "ours 0.91 [" in verdict.measured
    assert "higher with probability 1.00" in verdict.measured
    assert summary([0.5]) == "0.5"
    assert set(verdict.to_json()) == {"claim", "measured", "holds", "seeds"}


def apart(baselines, ours):
    names = [*corridor.PAIRS, "EDL, between the two explorations"]
    return {name: {"transport": baselines if i < 2 else ours} for i, name in enumerate(names)}


@pytest.mark.parametrize(
    ("baselines", "ours", "expected"), [(HIGH, LOW, True), (LOW, HIGH, False), (HIGH, HIGH, False)]
)
def test_corridor(baselines, ours, expected):
    assert [verdict.holds for verdict in corridor.verdicts(apart(baselines, ours))] == [expected, expected]


def test_interpolation():
    found = {"ours": {"all pairs": Errors(LOW, HIGH), "pairs without a wall between": Errors(HIGH, LOW)}}
    assert [verdict.holds for verdict in interpolation.verdicts(found)] == [True, False]
    found = {"ours": {"all pairs": Errors(LOW, HIGH), "pairs without a wall between": Errors([], [])}}
    assert len(interpolation.verdicts(found)) == 1  # there may be no such pair


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


def test_the_theory_is_exact():
    found = gridworld.facts(gridworld.gridworld_landscape())
    assert [verdict.holds for verdict in gridworld.verdicts(found)] == [True, True]
    assert [verdict.holds for verdict in gridworld.verdicts({**found, "greatest_new": 0.01})] == [False, True]
    assert [verdict.holds for verdict in gridworld.verdicts({**found, "forms_differ": 0.01})] == [True, False]


def run_with(**metrics):
    """As much of a run as verdicts look at."""
    per_seed = [{name: values[i] for name, values in metrics.items()} for i in range(4)]
    return Run(config=RunConfig(), env=make_env("square"), layout=None, metrics={"per_seed": per_seed})


def test_tree_prior():
    near, far = run_with(zero_shot_distance=LOW), run_with(zero_shot_distance=HIGH)
    runs = {"forward_mi": far, "reverse_mi": far, "no_prior": near, "prior": near}
    half, all_right = [0.5, 0.45, 0.55, 0.5], [1.0, 1.0, 0.99, 1.0]
    shares = {"forward_mi": half, "reverse_mi": half, "no_prior": half, "prior": all_right}
    assert [verdict.holds for verdict in tree_prior.verdicts(runs, shares)] == [True, True, True]
    swapped = {"forward_mi": all_right, "reverse_mi": half, "no_prior": all_right, "prior": half}
    assert [verdict.holds for verdict in tree_prior.verdicts(runs, swapped)] == [False, False, False]


def test_form_of_the_mutual_information():
    runs = {"forward": run_with(goal_success=HIGH), "reverse": run_with(goal_success=LOW)}
    own, wide = {"forward": HIGH, "reverse": LOW}, {"forward": LOW, "reverse": HIGH}
    assert all(verdict.holds for verdict in mi_form.verdicts(runs, own, wide))
    runs = {"forward": runs["reverse"], "reverse": runs["forward"]}
    assert not any(verdict.holds for verdict in mi_form.verdicts(runs, wide, own))


def test_exploration_with_smm():
    near, far = run_with(zero_shot_distance=LOW), run_with(zero_shot_distance=HIGH)
    never = [0.0, 0.0, 0.01, 0.0]
    runs = {"forward_mi": far, "reverse_mi": far, "oracle": near, "smm": near}
    sides = {"forward_mi": never, "reverse_mi": never, "oracle": LOW, "smm": LOW}
    walls = {"oracle": LOW, "smm": HIGH}
    assert [verdict.holds for verdict in smm.verdicts(runs, sides, walls)] == [True] * 4
    runs = {"forward_mi": near, "reverse_mi": near, "oracle": far, "smm": far}
    sides, walls = {"forward_mi": LOW, "reverse_mi": LOW, "oracle": LOW, "smm": never}, {"oracle": HIGH, "smm": LOW}
    assert [verdict.holds for verdict in smm.verdicts(runs, sides, walls)] == [False] * 4


def test_bottleneck():
    near, far = {"zero_shot_distance": LOW}, {"zero_shot_distance": HIGH}
    few, many = {"skill_coverage": LOW}, {"skill_coverage": HIGH}
    failed, reached = {"goal_success": LOW}, {"goal_success": [0.99, 1.0, 0.98, 0.97]}
    partly = {"goal_success": [0.7, 0.6, 0.65, 0.7]}
    runs = {
        "forward_mi": run_with(**far, **few),
        "reverse_mi": run_with(**far, **few),
        "siblings": run_with(**near, **partly),
        "straight": run_with(**far, **failed),
        "on_foot": run_with(**near, **reached),
        "ours": run_with(**near, **reached),
    }
    assert [verdict.holds for verdict in bottleneck.verdicts(runs, LOW)] == [True] * 5
    opposite = {
        "forward_mi": run_with(**near, **many),
        "reverse_mi": run_with(**near, **few),
        "siblings": run_with(**far, **failed),
        "straight": run_with(**far, **partly),
        "on_foot": run_with(**far, **failed),
        "ours": run_with(**far, **reached),
    }
    assert [verdict.holds for verdict in bottleneck.verdicts(opposite, LOW)] == [False] * 5


def test_goals():
    assert goals.verdicts({"forward_mi": HIGH, "siblings": LOW, "ours": LOW})[0].holds
    assert not goals.verdicts({"forward_mi": LOW, "siblings": LOW, "ours": HIGH})[0].holds

"""The rules of the verdicts, with made-up numbers for which the claims hold, are refuted, and are undecided."""

import pytest

from edl.envs import make as make_env
from edl.paper import (
    bottleneck,
    corridor,
    entropy,
    goal_states,
    gridworld,
    interpolation,
    landscapes,
    mi_form,
    smm,
    tree_prior,
)
from edl.paper.figure import BASELINES
from edl.paper.interpolation import Errors
from edl.paper.verdict import (
    Scores,
    at_least,
    at_most,
    between,
    effect_of,
    greater,
    judge,
    less,
    not_greater,
    not_less,
    summary,
)
from edl.runs.config import RunConfig
from edl.runs.result import Run

HIGH, LOW, MIXED = [0.9, 0.8, 1.0, 0.94], [0.1, 0.3, 0.2, 0.15], [0.05, 0.95, 0.1, 0.9]
ONES, ZEROS, HALF, THREE = [1.0] * 4, [0.0] * 4, [0.5, 0.45, 0.55, 0.5], [3.0, 2.0, 3.0, 3.0]


def x(values):
    return Scores("x", values)


def y(values):
    return Scores("y", values)


# The rules


def test_greater_and_less_need_a_clear_difference():
    assert greater("score", x(HIGH), y(LOW)).outcome == "holds"
    assert greater("score", x(LOW), y(HIGH)).outcome == "refuted"
    assert greater("score", x(MIXED), y(MIXED)).outcome == "undecided"
    assert less("score", x(LOW), y(HIGH)).outcome == "holds"
    assert less("score", x(HIGH), y(LOW)).outcome == "refuted"
    assert greater("score", x([1.0]), y([0.0])).outcome == "holds"
    assert greater("score", x([1.0]), y([1.0])).outcome == "undecided"


def test_greater_needs_the_intervals_of_both_effects():
    """Of three seeds each, most pairs are in order, but the means could be equal."""
    more, fewer = [0.42, 0.61, 0.795], [0.3, 0.38, 0.58]
    effect = effect_of("score", x(more), y(fewer))
    assert effect.delta_interval.low > 0 > effect.interval.low
    assert greater("score", x(more), y(fewer)).outcome == "undecided"
    assert less("score", x(fewer), y(more)).outcome == "undecided"
    assert less("score", x(more), y(fewer)).outcome == "undecided"


def test_pairs_of_the_same_seed_are_compared_with_each_other():
    first, second = [1.0, 2.0, 3.0, 4.0], [0.9, 1.9, 2.9, 3.9]
    assert greater("score", x(first), y(second)).outcome == "undecided"
    assert greater("score", x(first), y(second), paired=True).outcome == "holds"
    assert less("score", x(first), y(second), paired=True).outcome == "refuted"


def test_a_slack_bounds_the_difference_of_the_means():
    assert not_greater("score", x(LOW), y(HIGH), slack=0.05).outcome == "holds"
    assert not_greater("score", x(HIGH), y(LOW), slack=0.05).outcome == "refuted"
    assert not_greater("score", x(MIXED), y(HALF), slack=0.05).outcome == "undecided"
    assert not_less("score", x(HIGH), y(HIGH), slack=0.2).outcome == "holds"
    assert not_less("score", x(LOW), y(HIGH), slack=0.05).outcome == "refuted"
    assert not_less("score", x(MIXED), y(HALF), slack=0.05).outcome == "undecided"


def test_bounds_need_the_whole_interval():
    assert at_least("score", x(HIGH), 0.7).outcome == "holds"
    assert at_least("score", x(MIXED), 0.4).outcome == "undecided"
    assert at_least("score", x(LOW), 0.4).outcome == "refuted"
    assert at_most("score", x(LOW), 0.35).outcome == "holds"
    assert at_most("score", x(HIGH), 0.35).outcome == "refuted"
    assert at_most("score", x([0.5]), 0.5).outcome == at_least("score", x([0.5]), 0.5).outcome == "holds"
    assert between("score", x(HALF), 0.3, 0.7).outcome == "holds"
    assert between("score", x(MIXED), 0.3, 0.7).outcome == "undecided"
    assert between("score", x(HIGH), 0.3, 0.7).outcome == between("score", x(LOW), 0.3, 0.7).outcome == "refuted"


def test_a_claim_needs_every_part():
    yes, unclear, no = (at_least("score", x(values), 0.5) for values in (HIGH, MIXED, LOW))
    assert judge("claim", "test", [yes, yes]).outcome == "holds"
    assert judge("claim", "test", [yes, unclear]).outcome == "undecided"
    assert judge("claim", "test", [yes, unclear, no]).outcome == "refuted"
    assert len(judge("claim", "test", [yes, no]).measured) == 2


# The sizes of effects


def test_the_effect_of_two_samples_by_hand():
    effect = effect_of("score", x([1.0, 2.0, 3.0]), y([2.0, 0.0]))
    assert effect is not None
    assert effect.difference == 1.0
    # Of the six pairs, four have x > y (1 > 0, 2 > 0, 3 > 2, 3 > 0), one is a tie, and one has x < y.
    assert effect.delta == pytest.approx((4 - 1) / 6)
    assert effect.interval.low < 1.0 < effect.interval.high
    assert effect.delta_interval.low < effect.delta < effect.delta_interval.high


def test_the_effect_of_pairs_by_hand():
    effect = effect_of("score", x([1.0, 5.0, 3.0, 2.0]), y([0.0, 3.0, 4.0, 2.0]), paired=True)
    assert effect is not None
    assert effect.difference == 0.5  # of 1, 2, -1, 0
    assert effect.delta == pytest.approx((2 - 1) / 4)


def test_the_effect_against_a_bound_by_hand():
    part = at_least("score", x([0.2, 0.4, 0.9, 1.0]), 0.5)
    assert part.effect is not None
    assert part.effect.difference == pytest.approx(0.125)
    assert part.effect.delta == 0.0
    assert part.seeds == 4


def test_separate_samples_have_the_largest_delta_and_constants_an_empty_interval():
    effect = effect_of("score", x(ONES), y(ZEROS))
    assert effect is not None
    assert (effect.difference, effect.interval, effect.delta, effect.delta_interval) == (1.0, (1.0, 1.0), 1.0, (1, 1))
    same = effect_of("score", x(ONES), y(ONES))
    assert same is not None
    assert (same.difference, same.delta) == (0.0, 0.0)


def test_seeds_without_a_score_are_left_out():
    part = greater("score", x([*HIGH, None]), y(LOW))
    assert (part.outcome, part.seeds) == ("holds", 4)
    empty = greater("score", x([None, None]), y(LOW))
    assert (empty.outcome, empty.seeds, empty.effect) == ("undecided", 0, None)
    assert empty.measured.startswith("score: x no seed against y 0.188 [")
    assert empty.measured.endswith("; not measured")
    assert judge("claim", "test", [empty, part]).effects == [part.effect]


def test_the_text_of_a_verdict():
    verdict = judge("It is better.", "More.", [greater("score", x(HIGH), y(LOW))], source="ours")
    assert (verdict.claim, verdict.test, verdict.source, verdict.seeds) == ("It is better.", "More.", "ours", 4)
    (measured,) = verdict.measured
    assert measured.startswith("score: x 0.91 [")
    assert "difference 0.723 [" in measured
    assert measured.endswith("delta +1.00 [+1.00, +1.00]")
    assert summary([0.5]) == "0.5"
    keys = {"claim", "test", "measured", "outcome", "holds", "seeds", "effects", "source"}
    assert set(verdict.to_json()) == keys
    assert verdict.to_json()["holds"] is True
    assert set(verdict.to_json()["effects"][0]) >= {"difference", "interval", "delta", "delta_interval"}


# The claims of each figure: each holds with one set of numbers, and is refuted by another


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


def check(favourable, opposite, count):
    """Every claim of a figure holds, and every claim is refuted. Each has a test, an effect, and ends with a stop."""
    assert outcomes(favourable) == ["holds"] * count
    assert outcomes(opposite) == ["refuted"] * count
    for verdict in favourable:
        assert verdict.effects
        assert verdict.test.endswith(".")
        assert verdict.claim.endswith((".", "]"))
    assert len({verdict.claim for verdict in favourable}) == count


def run_with(**metrics):
    """A run with the parts that verdicts read."""
    per_seed = [{name: values[i] for name, values in metrics.items()} for i in range(4)]
    return Run(config=RunConfig(), env=make_env("square"), layout=None, metrics={"per_seed": per_seed})


def good(success=HIGH):
    return run_with(best_skill_distance=LOW, skill_coverage=HIGH, goal_success=success)


def bad(success=LOW):
    return run_with(best_skill_distance=HIGH, skill_coverage=LOW, goal_success=success)


def baselines(values):
    return dict.fromkeys(BASELINES, values)


def test_bottleneck():
    favourable = bottleneck.verdicts(
        {
            **baselines(bad()),
            "siblings": good(HALF),
            "no_siblings": bad(),
            "smm": bad(),
            "walking": good(ONES),
            "ours": good(ONES),
        },
        {"new_cells": baselines(ZEROS), "in_first_room": baselines(HIGH)},
    )
    opposite = bottleneck.verdicts(
        {
            **baselines(good()),
            "siblings": bad(HALF),
            "no_siblings": good(),
            "smm": good(),
            "walking": good(LOW),
            "ours": bad(ZEROS),
        },
        {"new_cells": baselines(HALF), "in_first_room": baselines(LOW)},
    )
    check(favourable, opposite, 7)


def test_exploration_with_smm():
    edl_runs = ("siblings", "smm", "walking", "smm_walking")
    favourable = smm.verdicts(
        {**baselines(bad()), **dict.fromkeys(edl_runs, good())},
        {**baselines(ZEROS), **dict.fromkeys(edl_runs, THREE)},
        {"siblings": LOW, "smm": HIGH},
    )
    opposite = smm.verdicts(
        {**baselines(good()), **dict.fromkeys(edl_runs, bad()), "siblings": run_with(best_skill_distance=HALF)},
        {**baselines([2.0] * 4), **dict.fromkeys(edl_runs, ZEROS)},
        {"siblings": HIGH, "smm": LOW},
    )
    check(favourable, opposite, 6)


def corridor_distances(methods, between_seeds, edl, edl_between_seeds):
    names = dict.fromkeys(corridor.BASELINE_PAIRS, methods) | dict.fromkeys(corridor.EDL_PAIRS, edl)
    controls = {corridor.between_seeds(name): between_seeds for name in corridor.BASELINE_PAIRS}
    controls |= {corridor.between_seeds(name): edl_between_seeds for name in corridor.EDL_PAIRS}
    every = names | controls | {corridor.BETWEEN_EXPLORATIONS: edl}
    return {name: {"transport": values} for name, values in every.items()}


def test_corridor():
    favourable = corridor.verdicts(corridor_distances(HIGH, LOW, edl=LOW, edl_between_seeds=LOW))
    opposite = corridor.verdicts(corridor_distances(LOW, HALF, edl=HIGH, edl_between_seeds=LOW))
    check(favourable, opposite, 3)
    one_seed = corridor.verdicts(corridor_distances([0.9], [], edl=[0.1], edl_between_seeds=[]))
    assert outcomes(one_seed) == ["undecided", "holds", "undecided"]  # there is no second seed to compare with


def test_tree_prior():
    near, far, right, left = good(), bad(), [1.0, 1.0, 0.99, 1.0], ZEROS
    edl_runs = ("no_prior", "prior", "no_prior_walking", "prior_walking")
    favourable = tree_prior.verdicts(
        {**baselines(far), **dict.fromkeys(edl_runs, near)},
        {**baselines(HALF), "no_prior": HALF, "prior": right, "no_prior_walking": HALF, "prior_walking": right},
    )
    opposite = tree_prior.verdicts(
        {**baselines(near), **dict.fromkeys(edl_runs, far)},
        {**baselines(right), "no_prior": right, "prior": left, "no_prior_walking": HALF, "prior_walking": HALF},
    )
    check(favourable, opposite, 4)


def test_interpolation():
    small, large = Errors(LOW, HIGH, [45] * 4), Errors(HIGH, LOW, [20] * 4)
    kinds = (interpolation.ALL_PAIRS, interpolation.OPEN_PAIRS)
    favourable = interpolation.verdicts({label: dict.fromkeys(kinds, small) for label in ("siblings", "ours")})
    opposite = interpolation.verdicts({label: dict.fromkeys(kinds, large) for label in ("siblings", "ours")})
    check(favourable, opposite, 2)
    assert "180 pairs" in favourable[0].measured[0]
    none = {interpolation.ALL_PAIRS: small, interpolation.OPEN_PAIRS: Errors([], [], [0] * 4)}
    assert outcomes(interpolation.verdicts({"ours": none})) == ["undecided"]


def test_goals():
    favourable = goal_states.verdicts({"forward_mi": HIGH, "siblings": LOW, "ours": LOW}, HIGH)
    opposite = goal_states.verdicts({"forward_mi": LOW, "siblings": HIGH, "ours": HIGH}, LOW)
    check(favourable, opposite, 3)


def test_landscapes():
    def numbers(maxima, confidence, deceptive, other):
        return {
            "maxima_unexplored": maxima,
            "confidence_where_unexplored": confidence,
            "failures": {"deceptive": deceptive, "other": other},
        }

    favourable = landscapes.verdicts(10, numbers(HIGH, HIGH, HIGH, LOW))
    opposite = landscapes.verdicts(10, numbers([0.0, 0.0, 0.1, 0.0], LOW, LOW, HIGH))
    check(favourable, opposite, 3)


def test_form_of_the_mutual_information():
    def numbers(reverse, forward):
        values = {"reverse": reverse, "plain": forward, "forward": forward, "walking": LOW}
        per_run = {mi_form.run_label(form, env): each for form, each in values.items() for env in mi_form.ENVS}
        return dict.fromkeys(mi_form.NEUTRAL, per_run)

    check(mi_form.verdicts(numbers(HIGH, LOW)), mi_form.verdicts(numbers(LOW, HIGH)), 4)


def test_entropy():
    def spreads(region, goal):
        """Spreads at our and at the authors' entropy weight, for rewards of regions and of goals."""
        return {
            label: entropy.Spread((goal if method == "forward" else region)[weight], ONES)
            for label, (method, _, weight) in entropy.CASES.items()
        }

    ours, authors = entropy.WEIGHTS
    favourable = entropy.verdicts(spreads({ours: HALF, authors: HIGH}, {ours: LOW, authors: LOW}))
    opposite = entropy.verdicts(spreads({ours: HALF, authors: LOW}, {ours: HIGH, authors: HIGH}))
    check(favourable, opposite, 8)
    assert [len(verdict.measured) for verdict in favourable] == [1, 2] * 4
    # More spread than EDL at the authors' weight, but not more than without the bonus: the bonus is not the cause.
    constant = entropy.verdicts(spreads({ours: HALF, authors: HALF}, {ours: LOW, authors: LOW}))
    assert outcomes(constant) == ["holds", "undecided"] * 4


def test_the_theory_holds_exactly():
    numbers = gridworld.extreme_rewards(gridworld.gridworld_landscape())
    assert outcomes(gridworld.verdicts(numbers)) == ["holds", "holds"]
    for name in ("greatest_new", "greatest_known"):
        assert outcomes(gridworld.verdicts({**numbers, name: 0.01})) == ["refuted", "holds"]
    for name in ("forms_differ", "forward_where_reverse_is_minus_infinity"):
        assert outcomes(gridworld.verdicts({**numbers, name: 0.01})) == ["holds", "refuted"]

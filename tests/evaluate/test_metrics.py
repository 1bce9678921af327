"""The table of metrics is consistent, and formats values and units."""

import pytest

from edl.evaluate.metrics import CURRENT_DEFINITIONS, DEFINITIONS, METRICS, definitions_note, definitions_of, label_of


def test_names_are_keys_and_labels_are_unique():
    assert all(name == metric.name for name, metric in METRICS.items())
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)
    assert len({metric.meaning for metric in METRICS.values()}) == len(METRICS)


def test_distances_are_minimised_and_other_metrics_are_maximised():
    for metric in METRICS.values():
        assert metric.direction == ("lower" if metric.unit == "distance" else "higher")
        assert metric.sign == (-1 if metric.direction == "lower" else 1)


def test_the_contract_names_are_in_the_table():
    names = {"data_coverage", "data_coverage_100k", "skill_coverage", "goal_distance", "goal_success"}
    names |= {"best_skill_distance", "zero_shot_distance", "mutual_information", "worst_skill_success"}
    assert names <= METRICS.keys()


@pytest.mark.parametrize(
    ("name", "distance_unit", "expected"),
    [
        ("best_skill_distance", "cells", "distance from the best skill's end to a random point (cells)"),
        (
            "goal_distance",
            "standard deviations",
            "distance from a rollout's end to its skill's goal (standard deviations)",
        ),
        ("goal_distance", "", "distance from a rollout's end to its skill's goal"),
        ("skill_coverage", "cells", "share of the reachable cells that the skills visit"),
        (
            "skill_coverage",
            "standard deviations",
            "share of the cells of a grid over the explored states that the skills visit",
        ),
        ("mutual_information", "cells", "mutual information between a state's cell and its skill (nats)"),
        ("goal_success", "cells", "share of rollouts that end within 0.5 cells of their skill's goal"),
    ],
)
def test_describe_adds_the_unit(name, distance_unit, expected):
    assert METRICS[name].describe(distance_unit) == expected


def test_format_by_unit():
    assert METRICS["goal_success"].format(0.123) == "12.3%"
    assert METRICS["goal_success"].format(1.0) == "100%"
    assert METRICS["goal_distance"].format(0.5) == "0.50"


def test_an_unknown_name_becomes_words():
    assert label_of("goal_success") == "Goals reached"
    assert label_of("my_own_metric") == "My own metric"


FIRST = {"per_seed": [{"seed": 0, "zero_shot_distance": 1.0, "zero_shot_picked_distance": 2.0}]}
SECOND = {"per_seed": [{"seed": 0, "best_skill_distance": 1.0, "zero_shot_distance": 2.0}]}


@pytest.mark.parametrize(
    ("metrics", "number"),
    [(FIRST, 1), (SECOND, 2), ({"per_seed": [{"data_coverage": 1.0}]}, 2), (SECOND | {"metric_definitions": 3}, 3)],
)
def test_metrics_say_which_definitions_they_hold(metrics, number):
    assert definitions_of(metrics) == number


def test_other_definitions_are_explained():
    assert definitions_note(SECOND | {"metric_definitions": CURRENT_DEFINITIONS}) is None
    assert "zero_shot_distance is the distance after the best skill" in (definitions_note(FIRST) or "")
    assert definitions_note(SECOND) == DEFINITIONS[2]
    assert "does not know" in (definitions_note({"metric_definitions": 99}) or "")

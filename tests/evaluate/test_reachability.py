"""A run says so if its explorer cannot reach on purpose what it has visited."""

from edl.evaluate.reachability import reachability_note


def rows(*shares):
    return [{"stage": "explore", "goal_success": [share]} for share in shares]


def test_the_last_iterations_of_the_explorer_count():
    assert reachability_note(rows(*[0.0] * 50, *[0.7] * 10), 2) is None
    note = reachability_note(rows(*[1.0] * 50, *[0.25] * 10), 2)
    assert note is not None
    assert note.startswith("the explorer reached 25 % of the visited states")
    assert "--horizon" in note


def test_several_features_are_named_as_a_cause():
    few, many = (reachability_note(rows(0.1), size) for size in (2, 6))
    assert few is not None
    assert many is not None
    assert "A goal fixes 6 features at once: select fewer --features." in many
    assert "--features" not in few


def test_other_explorers_and_stages_say_nothing():
    assert reachability_note([], 2) is None
    other = [{"stage": "explore", "length": [3.0]}, {"stage": "learn", "goal_success": [0.0]}]
    assert reachability_note(other, 2) is None
    assert reachability_note(rows(float("nan")), 2) is None

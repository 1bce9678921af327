"""A run says so if its explorer cannot reach on purpose what it has visited."""

from edl.evaluate.reachability import reachability_note


def rows(*shares):
    return [{"stage": "explore", "goal_success": [share]} for share in shares]


def test_the_last_iterations_of_the_explorer_count():
    assert reachability_note(rows(*[0.0] * 50, *[0.7] * 10)) is None
    note = reachability_note(rows(*[1.0] * 50, *[0.25] * 10))
    assert note is not None
    assert note.startswith("the explorer reached 25 % of the visited states")


def test_other_explorers_and_stages_say_nothing():
    assert reachability_note([]) is None
    assert reachability_note([{"stage": "explore", "length": [3.0]}, {"stage": "learn", "goal_success": [0.0]}]) is None
    assert reachability_note(rows(float("nan"))) is None

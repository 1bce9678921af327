"""Skills that fail are named."""

from edl.evaluate.failures import failed_skills, failures_note

GOOD = {"skill": 0, "goal_success": 0.5, "goal_distance": 0.3}
DEAD = {"skill": 1, "rollouts": 20, "goal_success": 0.05, "goal_distance": 1.234}
LOST = {"skill": 2, "goal_success": 0.0, "goal_distance": None}
METRICS = {
    "per_seed": [
        {"seed": 7, "skills": [GOOD, DEAD, LOST]},
        {"seed": 8, "skills": [GOOD]},
        {"seed": 9, "skills": [DEAD]},
    ]
}


def test_skills_below_one_half_fail():
    assert failed_skills(METRICS) == {
        "seed 7": ["skill 1 misses its goal (1 of 20, 1.23 cells away)", "skill 2 misses its goal (0%)"],
        "seed 9": ["skill 1 misses its goal (1 of 20, 1.23 cells away)"],
    }


def test_the_note_counts_them_and_names_the_first_seeds():
    start = "3 of 5 skills reach their goal in less than half of their rollouts. "
    dead, lost = "skill 1 misses its goal (1 of 20, 1.23 cells away)", "skill 2 misses its goal (0%)"
    assert failures_note(METRICS) == f"{start}seed 7: {dead}, {lost}; seed 9: {dead}."
    assert failures_note(METRICS, 1) == f"{start}seed 7: {dead}, {lost}; and 1 more seeds."


def test_nothing_is_said_without_failures_without_goals_and_for_old_metrics():
    without_goals = {"skill": 0, "goal_success": None, "goal_distance": None}
    for seeds in ([{"seed": 0, "skills": [GOOD]}], [{"seed": 0, "skills": [without_goals]}], [{"seed": 0}], []):
        assert failures_note({"per_seed": seeds}) is None
    assert failures_note({}) is None

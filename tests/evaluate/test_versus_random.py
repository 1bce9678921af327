"""Skills are said to be better than random if they are, and not if they are not."""

import numpy as np
import pytest

from edl.evaluate.versus_random import proof, summed_up

GENERATOR = np.random.default_rng(0)
SKILLS, ROLLOUTS, CELLS = 4, 20, 30


def census(places) -> np.ndarray:
    """Visits of every rollout of every skill to cells drawn from its row of ``places``; none outside."""
    counts = np.zeros((SKILLS, ROLLOUTS, CELLS + 1), int)
    for skill, choices in enumerate(places):
        for rollout in range(ROLLOUTS):
            np.add.at(counts[skill, rollout], GENERATOR.choice(choices, 12), 1)
    return counts


SAME = census([range(6)] * SKILLS)
APART = census([range(6 * i, 6 * i + 6) for i in range(SKILLS)])
CLOSE_BUT_APART = census([[i] for i in range(SKILLS)])


@pytest.mark.parametrize(
    ("skills", "reach", "begins"),
    [
        (SAME, 0.2, "no better than random"),
        (APART, 0.2, "better than random: the skills differ, cover as much"),
        (APART, 1.0, "better than random: the skills differ, and cover as much"),
        (CLOSE_BUT_APART, 0.2, "better than random: the skills differ, and bring one nearer"),
        (CLOSE_BUT_APART, 1.0, "partly better than random"),
    ],
)
def test_the_verdict_is_in_plain_words(skills, reach, begins):
    found = proof(skills, SAME, reach, 1.0)
    assert found["verdict"].startswith(begins)


def test_random_behaviour_is_no_better_than_random_however_few_rollouts_there_are():
    for seed in range(10):
        few = census([range(CELLS)] * SKILLS)[:, :3]
        assert proof(few, few, 1.0, 1.0, seed)["verdict"].startswith("no better")


def test_chance_gives_some_information_too():
    found = proof(APART, SAME, 0.2, 1.0)
    assert found["information"] == pytest.approx(np.log(SKILLS), abs=1e-6)
    assert 0 < found["information_by_chance"] < 0.5
    assert found["p_value"] == pytest.approx(1 / 200)
    assert (found["coverage"], found["random_coverage"]) == (24 / 30, 6 / 30)


def test_the_worst_seed_decides():
    found = summed_up([proof(APART, SAME, 0.2, 1.0), proof(SAME, SAME, 1.0, 1.0)])
    assert found["verdict"].startswith("no better")
    assert found["reach"] == pytest.approx(0.6)
    assert summed_up([]) is None

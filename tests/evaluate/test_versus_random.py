"""The verdict says "better than random" if and only if the skills are."""

import numpy as np
import pytest

from edl.evaluate.versus_random import aggregate_comparisons, compare_with_random

GENERATOR = np.random.default_rng(0)
SKILLS, ROLLOUTS, CELLS = 4, 20, 30


def visits(cells) -> np.ndarray:
    """Visit counts where the rollouts of a skill visit cells drawn from its row of ``cells``, none outside the grid."""
    counts = np.zeros((SKILLS, ROLLOUTS, CELLS + 1), int)
    for skill, choices in enumerate(cells):
        for rollout in range(ROLLOUTS):
            np.add.at(counts[skill, rollout], GENERATOR.choice(choices, 12), 1)
    return counts


SAME = visits([range(6)] * SKILLS)
APART = visits([range(6 * i, 6 * i + 6) for i in range(SKILLS)])
NARROW_BUT_APART = visits([[i] for i in range(SKILLS)])


@pytest.mark.parametrize(
    ("skills", "reach", "begins"),
    [
        (SAME, 0.2, "no better than random"),
        (APART, 0.2, "better than random: the skills differ, cover at least as much"),
        (APART, 1.0, "better than random: the skills differ and cover at least as much"),
        (NARROW_BUT_APART, 0.2, "better than random: the skills differ and end nearer"),
        (NARROW_BUT_APART, 1.0, "partly better than random"),
    ],
)
def test_verdict(skills, reach, begins):
    found = compare_with_random(skills, SAME, reach, 1.0)
    assert found["verdict"].startswith(begins)


def test_random_behaviour_is_no_better_than_random_even_with_few_rollouts():
    for seed in range(10):
        few = visits([range(CELLS)] * SKILLS)[:, :3]
        assert compare_with_random(few, few, 1.0, 1.0, seed)["verdict"].startswith("no better")


def test_chance_alone_gives_some_information():
    found = compare_with_random(APART, SAME, 0.2, 1.0)
    assert found["information"] == pytest.approx(np.log(SKILLS), abs=1e-6)
    assert 0 < found["information_by_chance"] < 0.5
    assert found["p_value"] == pytest.approx(1 / 200)
    assert (found["coverage"], found["random_coverage"]) == (24 / 30, 6 / 30)


def test_the_verdict_over_seeds_is_the_worst_one():
    found = aggregate_comparisons(
        [compare_with_random(APART, SAME, 0.2, 1.0), compare_with_random(SAME, SAME, 1.0, 1.0)]
    )
    assert found["verdict"].startswith("no better")
    assert found["reach"] == pytest.approx(0.6)
    assert aggregate_comparisons([]) is None

"""Methods since 2020 learn on square with their default settings, each within a minute or two on a CPU."""

import pytest

import edl
from edl.runs.result import load
from edl.tables.offline import zero_shot

LEVEL = 0.8
"""Skills must end nearer to a random point than this share of the distance after random actions."""
WITH_SKILLS = (
    *("metra_ppo", "lsd", "csd", "csf", "cic", "aps", "becl"),
    *("disco_dance", "rsd", "map_elites"),
)


@pytest.mark.slow
@pytest.mark.parametrize("method", WITH_SKILLS)
def test_skills_end_nearer_to_a_random_point_than_random_actions(method, tmp_path):
    run = edl.run(env="square", method=method, out=tmp_path / "run")
    random = run.metrics["random"]["best_skill_distance"]
    assert run.metrics["per_seed"][0]["best_skill_distance"] < LEVEL * random


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hilp", "fb"])
def test_offline_methods_do_what_a_reward_asks_for_and_hilp_reaches_goals(method, tmp_path):
    edl.run(env="square", method=method, out=tmp_path / "run")
    found = zero_shot(load(tmp_path / "run"))
    assert found["reward_share"][0] > found["random_reward_share"] + 0.3
    if method == "hilp":
        assert found["goal_distance"][0] < 0.5 * found["random_goal_distance"]


@pytest.mark.slow
def test_the_policy_of_apt_visits_more_of_the_maze_than_random_actions(tmp_path):
    run = edl.run(env="square", method="apt", out=tmp_path / "run")
    assert run.metrics["per_seed"][0]["state_entropy"] > run.metrics["random"]["state_entropy"] + 0.2


@pytest.mark.slow
def test_tldr_covers_more_than_persistent_random_actions(tmp_path):
    tldr, walk = (
        edl.run("square", explore=name, until="explore", out=tmp_path / name).metrics["per_seed"][0][
            "data_coverage_100k"
        ]
        for name in ("tldr", "random_walk")
    )
    assert tldr > walk

"""The Markdown of the tables, from results whose means, worst runs and shares are computed by hand."""

import numpy as np
import pytest

from edl.envs import layout_of
from edl.tables import mazes, methods, offline, published, seeds, training, tuning
from edl.tables.explorers import TABLE as EXPLORERS
from edl.tables.markdown import facts_line, markdown_table, mean_cell, million, missing_line
from edl.tables.table import FIRST_MAZE, maze_names

MADE = {"seed": 0, "num_seeds": 2, "edl": "1.0", "commit": None, "device": "1 x H200", "date": "2030-01-01"}


def result(method, env="bottleneck", *, mean, per_seed=(), **facts):
    made = {**MADE, "budget": 5_000_000, "tuned": True, "random": {"skill_coverage": 0.34}, **facts}
    return {
        **made,
        "env": env,
        "method": method,
        "mean": mean,
        "ci95": {name: [value - 0.1, value + 0.1] for name, value in mean.items()},
        "steps": {"explore": 100_000, "learn": 900_000},
        "per_seed": [{"seed": i, **each} for i, each in enumerate(per_seed)],
    }


def lines_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_cells():
    each = result("metra", mean={"goal_success": 0.5})
    assert mean_cell(each, "goal_success") == "0.50 [0.40, 0.60]"
    assert mean_cell(each, "goal_success", 3) == "0.500 [0.400, 0.600]"
    assert mean_cell(each | {"num_seeds": 1}, "goal_success") == "0.50"
    assert mean_cell(each, "best_skill_distance") == "-"
    assert mean_cell({"failed": "not finite"}, "goal_success") == "failed"
    assert million(5_220_000) == "5.22M"
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert missing_line([]) == ""
    assert missing_line(["a", "b"]) == "\n\nNot measured: a, b."


def test_facts_name_all_versions_devices_and_dates():
    first = result("metra", mean={})
    second = first | {"edl": "1.1", "commit": "0123456789", "date": "2030-02-01", "seed": 300}
    assert facts_line({"a": first}) == "2 seeds from 0; 1 x H200; edl 1.0; 2030-01-01."
    expected = "2 seeds from 0 and 2 seeds from 300; 1 x H200; edl 1.0 and edl 1.1 (0123456); 2030-01-01 to 2030-02-01."
    assert facts_line({"a": first, "b": second}) == expected


def methods_results():
    scores = {"reverse_mi": 5.0, "metra": 4.0, "skewfit": 3.0, "edl": 1.0, "edl_oracle": 0.9}
    return {
        f"bottleneck/{method}": result(method, mean={"best_skill_distance": score, "skill_coverage": 0.5})
        for method, score in scores.items()
    }


def test_methods_in_one_maze():
    text = methods.maze_view("bottleneck", methods_results())
    head, _, random, *rows = lines_of(text)
    assert head == ["bottleneck", *methods.COLUMNS.values(), "steps"]
    assert random[0] == "random actions"
    assert random[2] == "0.34"
    assert [row[0] for row in rows] == ["`reverse_mi`", "`metra`", "`skewfit`", "**EDL, oracle**", "**EDL, no oracle**"]
    assert rows[2][3] == "3.00 [2.90, 3.10]"
    assert {row[-1] for row in rows} == {"1.00M"}
    assert "Up to 5.00M environment steps per method and seed. Settings tuned in this maze." in text
    assert "Not measured: `forward_mi`, " in text
    assert methods.maze_view("tree", methods_results()) == "tree: not measured."


def test_the_short_table_has_the_best_baseline():
    rows = lines_of(methods.readme_view(methods_results()))[3:]
    names = ["`reverse_mi`", "`metra`", "`skewfit`, the best of 3 baselines", "EDL", "**EDL**"]
    assert [row[0] for row in rows] == names
    assert [row[1] for row in rows] == ["", "", "", "yes", "no"]
    assert rows[-1][2:] == ["1.00", "0.50", "-", "1.00M"]
    explorer = {"bottleneck/tldr": result("tldr", mean={"best_skill_distance": 2.0, "skill_coverage": 0.9})}
    rows = lines_of(methods.readme_view(methods_results() | explorer))[3:]
    assert [row[0] for row in rows][2:4] == ["`skewfit`", "`tldr`, the best of 4 baselines"]


def test_methods_are_ranked_by_the_distance_of_the_best_skill():
    results = methods_results() | {"bottleneck/vic": {"failed": "not finite"}}
    assert methods.ranking(results, "bottleneck", ["reverse_mi", "vic", "skewfit"]) == ["skewfit", "reverse_mi"]


def test_random_mazes_have_means_worst_runs_and_shares_over_all_runs():
    runs = {
        "a/edl": ([0.98, 0.88], [1.0, 2.0]),
        "b/edl": ([1.0, 0.94], [1.0, 4.0]),
    }
    results = {
        key: result(
            "edl",
            f"random:6x6?seed={i}",
            mean={},
            per_seed=[{"goal_success": g, "best_skill_distance": d} for g, d in zip(*pair, strict=True)],
        )
        for i, (key, pair) in enumerate(runs.items())
    }
    results["a/metra"] = result("metra", mean={}, per_seed=[{"best_skill_distance": 7.0}])
    text = mazes.view(results)
    _, _, edl, metra = lines_of(text)
    assert edl == ["**EDL**", "2, 4", "2.00", "4.00", "-", "0.950", "0.880", "0.250", "1.00M"]
    assert metra == ["`metra`", "1, 1", "7.00", "7.00", "-", "-", "-", "-", "1.00M"]
    assert "Not measured: **EDL** with default settings, 4 of the 5 best other methods." in text
    assert lines_of(mazes.edl_view(results))[2][3:] == ["0.930", "0.880", "1.50"]


def test_mazes_that_were_looked_at_have_lines_of_their_own():
    fresh, known = maze_names(1, FIRST_MAZE)[0], maze_names(1, FIRST_MAZE - 1)[0]
    success = {fresh: 1.0, known: 0.5}
    results = {f"{env}/edl": result("edl", env, mean={}, per_seed=[{"goal_success": success[env]}]) for env in success}
    ours, looked_at = lines_of(mazes.view(results))[2:]
    assert ours[0] == "**EDL**"
    assert looked_at[0] == "**EDL**; mazes before 61, of which some were looked at"
    assert [ours[5], looked_at[5]] == ["1.000", "0.500"]
    old = {key: each for key, each in results.items() if each["env"] == known}
    text = mazes.TABLE.views[""](old)
    assert "Not measured: **EDL**, **EDL** with default settings, 5 of the 5 best other methods." in text
    assert "## EDL, maze by maze\n\nNot measured.\n\n## EDL, mazes before 61, of which" in text


def test_seeds_below_the_limit_are_listed_with_their_failed_skills():
    success = [(0.98, []), (0.9, [3]), (0.5, [1, 4]), (0.96, [])]
    per_seed = [{"goal_success": value, "failed_skills": failed} for value, failed in success]
    many = result("edl", mean={"skill_coverage": 0.6}, per_seed=per_seed)
    again = many | {"seconds": {"compile": 20.0, "learn": 80.0, "total": 100.4}, "per_seed": [many["per_seed"][0]]}
    text = seeds.seeds_view({"bottleneck": many, "bottleneck/more": again})
    numbers = ["0.835", "0.500", "3", "0.60", "1.00M"]
    assert lines_of(text)[2] == ["bottleneck", "4 from 0", *numbers, "-"]  # an older result without its time
    more = ["0.980", "0.980", "0", "0.60", "1.00M", "100 s"]
    assert lines_of(text)[3] == ["bottleneck (other seeds)", "1 from 0", *more]
    assert "* bottleneck: 1 (0.900, skill 3); 2 (0.500, skills 1, 4); 3 (0.960, no skill alone)" in text
    assert "Not measured: spiral." in text
    assert "Not measured: bottleneck (other seeds), spiral." in seeds.seeds_view({"bottleneck": many})


def test_the_papers_mazes_have_steps_with_and_without_an_oracle():
    each = result("edl", "tree", mean={}, per_seed=[{"goal_success": 1.0}, {"goal_success": 0.9}])
    each["random"] = {"goal_success": 0.02}
    rows = lines_of(seeds.paper_view({"tree/edl": each}))
    assert rows[5] == ["tree", "-", "-", "0.950, 0.900", "1.00M", "0.02"]


def test_the_best_point_of_a_grid_is_shown_next_to_the_defaults():
    settings = {"baseline.ppo.entropy_weight": 0.01, "baseline.variance": 1.0}
    results = {
        tuning.key_of("tree", "forward_mi", point): result(
            "forward_mi", "tree", mean={"best_skill_distance": score}, point=point, settings=settings
        )
        for point, score in (("default", 3.0), ("-+-", 2.0))
    }
    results[tuning.key_of("tree", "forward_mi", "+++")] = {**MADE, "budget": 5_000_000, "failed": "not finite"}
    row = lines_of(tuning.view(results))[2]
    assert row[:3] == ["tree", "`forward_mi`", "-+-"]
    assert row[3] == "ppo.entropy_weight 0.01, variance 1"
    assert row[4:] == ["2.00 [1.90, 2.10]", "3.00 [2.90, 3.10]", "3, 1 failed"]


def test_coverage_of_explorers():
    results = {"square/frontier": result("frontier", mean={"data_coverage_100k": 0.9})}
    rows = lines_of(EXPLORERS.views[""](results))
    assert rows[2] == ["frontier", "0.900 [0.800, 1.000]", "-", "-"]
    assert rows[3] == ["ExDM, published", "0.99", "0.91", "0.75"]
    theirs = {"square/knn": result("knn", mean={"data_coverage_100k": 0.8})}  # [0.7, 0.9]
    assert ["MEPOL, published", "0.98 (`knn`: lower)", "0.89", "0.62"] in lines_of(EXPLORERS.views[""](theirs))
    elsewhere = {"square/beyond": {**result("beyond", mean={}), "device": "1 x cpu"}}  # not part of this view
    readme = EXPLORERS.views["readme"](results | elsewhere)
    assert lines_of(readme)[2] == ["square", "-", "-", "-", "**0.900**"]
    assert readme.startswith("2 seeds from 0; 1 x H200; edl 1.0; 2030-01-01.\n")


def test_all_mazes_are_one_table_with_means_over_random_mazes():
    results = {
        "square/csf": result("csf", "square", mean={"best_skill_distance": 1.5, "skill_coverage": 0.9}),
        "random:a/csf": result(
            "csf", "random:a", mean={"best_skill_distance": 2.0, "skill_coverage": 0.5}, per_seed=[{}]
        ),
        "random:b/csf": result(
            "csf", "random:b", mean={"best_skill_distance": 4.0, "skill_coverage": 0.7}, per_seed=[{}]
        )
        | {"steps": {"learn": 3_000_000}},
        "random:b/lsd": {**MADE, "method": "lsd", "env": "random:b", "failed": "not finite"},
    }
    head, _, row = lines_of(methods.overview(results))
    assert head[:2] == ["method", "year"]
    assert row[:8] == ["`csf`", "2025", "1.50 [1.40, 1.60]", "0.90 [0.80, 1.00]", "1.00M", "-", "-", "-"]
    assert row[8].startswith("3.00 [")
    assert row[-1] == "2.00M"
    text = methods.random_view(results)
    assert lines_of(text)[3][:2] == ["`csf`", "2, 2"]
    assert lines_of(text)[3][-1] == "2.00M"
    assert "Failed: `lsd` in random:b." in text
    assert "Not measured: `reverse_mi`, " in text
    assert methods.random_view({}) == "Random mazes: not measured."


def test_published_numbers_have_a_verdict_by_the_interval():
    each = result("lsd", "leads_u", mean={"skill_coverage": 0.9, "mutual_information": 1.72})
    assert published.verdict(each, "skill_coverage", 0.79) == "higher"
    assert published.verdict(each, "skill_coverage", 0.85) == "equal"
    assert published.verdict(each, "skill_coverage", 101.0, 100.0) == "lower"
    assert published.verdict({}, "skill_coverage", 0.5) == "-"
    rows = lines_of(published.leads_view({"leads_u/lsd": each}))
    assert rows[2] == ["`lsd`", "- / 99.8 / -", "90.0 / 79.8 / higher", "- / 70.0 / -", "1.00M"]
    assert rows[-1] == ["LEADS", "- / 100.0 / -", "- / 96.0 / -", "- / 90.8 / -", "-"]
    assert lines_of(published.information_view({"square/cic": each}))[-1][:5] == [
        *("`cic`", "1.71", "1.72 [1.62, 1.82]", "-", "equal")
    ]


def test_prompts_of_offline_methods_are_scored_by_hand():
    layout = layout_of("bottleneck")  # starts in a corner: only right and up are far
    extent = layout.cells.max(axis=0)
    moves = np.zeros((4, 2, 2))
    moves[0, :, 0] = [extent[0], 0.0]
    moves[2, :, 1] = extent[1] / 4
    moves[1, :, 0] = -9.0
    assert offline.score(layout, moves) == pytest.approx((0.5 + 0.25) / 2)
    measured = {"goal_distance": [1.0, 2.0], "reward_share": [0.4, 0.8]}
    measured |= {"random_goal_distance": 4.0, "random_reward_share": 0.1}
    results = {
        "square/hilp": {"failed": "not finite"},
        "bottleneck/fb": result("fb", mean={}, measured=measured) | {"steps": {"explore": 100_000}},
        "bottleneck/metra": result("metra", mean={}, measured={"paths": []}, date="1999-01-01"),
    }
    text = offline.view(results)
    about = "0.10M environment steps of the explorer per seed. In brackets: the range of the seeds."
    assert text.splitlines()[0] == f"2 seeds from 0; 1 x H200; edl 1.0; 2030-01-01. {about}"
    [row] = lines_of(text)[2:]
    assert row == ["bottleneck", "`fb`", "1.50 (1.00 to 2.00)", "4.00", "0.60 (0.40 to 0.80)", "0.10"]
    assert offline.view({"square/hilp": {"failed": "not finite"}}) == offline.view({}) == "Not measured."


def test_coverage_in_training_and_numbers_of_envs():
    covered = {"data_coverage_100k": 0.7}
    results = {f"square/{name}": result(name, "square", mean=covered) for name in ("random", "cic", "cic_entropy")}
    rows = {row[0]: row[1:] for row in lines_of(training.coverage_view(results))}
    assert rows["random"] == ["- / 0.70 [0.60, 0.80]", "- / -", "- / -"]
    assert rows["`cic`"] == rows["`cic`, entropy alone"] == ["0.94 / 0.70 [0.60, 0.80], lower", "0.89 / -", "0.58 / -"]
    results = {"bottleneck/metra_ppo/512": result("metra_ppo", mean={"best_skill_distance": 3.0})}
    rows = lines_of(training.envs_view(results))
    assert rows[-1] == ["`metra_ppo`", "512", "-", "-", "3.00 [2.90, 3.10]", "-"]
    assert "`metra` with 8 envs in square" in training.envs_view(results)

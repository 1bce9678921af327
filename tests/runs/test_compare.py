"""A table over runs, from run folders written by the test."""

import csv
import io
import json

import pytest

from edl.cli import main
from edl.config import ConfigError
from edl.evaluate.metrics import CURRENT_DEFINITIONS
from edl.runs.compare import compare, definition_notes, names_of, seed_notes, to_csv, to_markdown


def write_run(path, definitions=CURRENT_DEFINITIONS, env="square", **metrics):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"env": env}))
    count = len(next(iter(metrics.values())))
    per_seed = [
        {"seed": i, **{name: values[i] for name, values in metrics.items()}, "skills": []} for i in range(count)
    ]
    stated = {} if definitions is None else {"metric_definitions": definitions}
    (path / "metrics.json").write_text(json.dumps({"per_seed": per_seed} | stated))
    return path


@pytest.fixture
def runs(tmp_path):
    good = write_run(tmp_path / "good", goal_success=[0.9, 1.0, 0.95, 1.0], best_skill_distance=[1.0, 1.2, 1.1, 0.9])
    bad = write_run(tmp_path / "bad", goal_success=[None] * 4, best_skill_distance=[3.0, 2.0, 4.0, 3.0])
    return [bad, good]


def test_entries_equal_hand_computed_values(runs):
    entries = {(entry.run, entry.metric): entry for entry in compare(runs)}
    assert ("bad", "goal_success") not in entries  # all its values are None
    good, bad = entries["good", "best_skill_distance"], entries["bad", "best_skill_distance"]
    assert (good.mean, bad.mean) == (pytest.approx(1.05), 3.0)
    assert good.iqm == pytest.approx(1.05)
    assert good.ci95[0] < good.mean < good.ci95[1]
    # Lower is better. Every seed of the good run is better than every seed of the first run, the reference.
    assert (good.improvement, good.improvement_ci95) == (1.0, (1.0, 1.0))
    assert bad.improvement is None
    assert entries["good", "goal_success"].improvement is None


def test_csv_and_markdown(runs):
    entries = compare(runs)
    rows = list(csv.DictReader(io.StringIO(to_csv(entries))))
    assert [(row["run"], row["metric"], row["seeds"]) for row in rows] == [
        ("good", "goal_success", "4"),
        ("bad", "best_skill_distance", "4"),
        ("good", "best_skill_distance", "4"),
    ]
    assert float(rows[1]["mean"]) == 3.0
    assert (rows[1]["improvement"], rows[2]["improvement"]) == ("", "1.0")
    lines = to_markdown(entries).splitlines()
    assert lines[0] == "| run | goal_success | best_skill_distance |"
    assert any(line.startswith("| bad | - | 3.000 [") for line in lines)


def test_runs_with_other_definitions_are_named(runs, tmp_path, capsys):
    first = write_run(tmp_path / "first", None, zero_shot_distance=[2.0], zero_shot_picked_distance=[3.0])
    second = write_run(tmp_path / "second", None, zero_shot_distance=[4.0], best_skill_distance=[1.5])
    assert definition_notes(runs) == []
    notes = definition_notes([runs[1], first, second])
    assert notes[0].startswith("first holds metrics by other definitions (edl 0.1: zero_shot_distance is the distance")
    assert notes[1].startswith("second holds metrics by other definitions (edl 0.2:")
    assert notes[1].endswith(f"Run `edl evaluate {second}` to compute them again.")
    table = tmp_path / "table.md"
    assert main(["compare", *map(str, (runs[1], first, second)), "--markdown", str(table)]) == 0
    assert capsys.readouterr().out.count("other definitions") == 2
    assert table.read_text().endswith("\n\n".join(notes) + "\n")


def test_runs_with_one_seed_are_named_because_they_are_not_ranked(runs, tmp_path):
    single = write_run(tmp_path / "single", goal_success=[1.0], best_skill_distance=[0.5])
    assert seed_notes(compare(runs)) == []
    assert seed_notes(compare([single])) == []
    assert seed_notes(compare([runs[1], single]))[0].startswith(
        "one seed has no interval, so these runs are not ranked: single."
    )


def test_metrics_of_edl_0_1_are_compared_under_their_present_names(tmp_path):
    first = write_run(tmp_path / "first", None, zero_shot_distance=[2.0], zero_shot_picked_distance=[3.0])
    second = write_run(tmp_path / "second", best_skill_distance=[1.5], zero_shot_distance=[4.0])
    entries = {(entry.run, entry.metric): entry.mean for entry in compare([first, second])}
    assert entries["first", "best_skill_distance"] == 2.0
    assert entries["first", "zero_shot_distance"] == 3.0
    assert entries["second", "zero_shot_distance"] == 4.0


def test_runs_have_the_shortest_names_that_differ(tmp_path):
    assert names_of(["x/a/run", "x/b/run"]) == ["a/run", "b/run"]
    assert names_of(["x/a", "x/b"]) == ["a", "b"]
    with pytest.raises(ConfigError, match="named twice"):
        names_of(["x/a", "x/../x/a", "x/a"])


def test_command(runs, tmp_path, capsys):
    names = {kind: tmp_path / "out" / f"table.{kind}" for kind in ("csv", "md", "png", "svg")}
    words = ["compare", *map(str, runs), "--csv", str(names["csv"]), "--markdown", str(names["md"])]
    assert main([*words, "--plot", str(names["png"])]) == 0
    printed = capsys.readouterr().out
    assert "best_skill_distance" in printed
    assert "3.000" in printed
    assert names["csv"].read_text() == to_csv(compare(runs))
    assert names["md"].read_text() == to_markdown(compare(runs))
    assert names["png"].read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *map(str, runs), "--plot", str(names["svg"])]) == 0
    assert b"<svg" in names["svg"].read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "holds no run"),
        (["RUN", "--metrics", "goal_succes"], "Did you mean 'goal_success'"),
        (["RUN", "--plot", "table.pdf"], "--plot must end in .png or .svg"),
        ([], "needs at least one run"),
    ],
)
def test_bad_input_is_rejected(runs, words, message, capsys):
    assert main(["compare", *(str(runs[1]) if word == "RUN" else word for word in words)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_run_beats_another_only_if_the_interval_says_so(tmp_path, runs):
    entries = {(entry.run, entry.metric): entry for entry in compare(runs)}
    assert entries["good", "best_skill_distance"].verdict == "beats"
    assert entries["bad", "best_skill_distance"].verdict == ""
    same = write_run(tmp_path / "same", best_skill_distance=[3.0, 2.0, 4.0, 3.5])
    single = write_run(tmp_path / "single", best_skill_distance=[0.1])
    found = {entry.run: entry for entry in compare([runs[0], same, single], ["best_skill_distance"])}
    assert found["same"].verdict == "unclear"
    assert (found["single"].improvement, found["single"].verdict) == (None, "")  # one seed has no interval
    assert compare([runs[1], runs[0]], ["best_skill_distance"])[1].verdict == "loses"


def test_runs_in_different_envs_are_not_ranked(tmp_path, runs, capsys):
    other = write_run(tmp_path / "other", env="tree", best_skill_distance=[0.1, 0.2])
    found = {entry.run: entry for entry in compare([*runs, other], ["best_skill_distance"])}
    assert found["good"].verdict == "beats"
    assert (found["other"].improvement, found["other"].verdict) == (None, "")
    assert main(["compare", *map(str, (*runs, other))]) == 0
    assert "another env than the first run and are not ranked against it: other." in capsys.readouterr().out

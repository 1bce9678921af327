"""`edl sweep`: a tiny grid, resuming it, and rejecting bad grids."""

import json
import sys

import pytest

from edl.cli import main
from edl.runs import chunk_work, points

RUN = {
    "env": "square",
    "explore": "random_walk",
    "discover": "kmeans",
    "num_skills": 3,
    "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 6, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}
GRID = {"run": RUN, "grid": {"learner.ppo.gamma": [0.9, 0.99], "learner.ppo.learning_rate": [1e-3]}}


def test_a_sweep_writes_tables_and_can_be_resumed(tmp_path, capsys, check_rejected, monkeypatch):
    file, out = tmp_path / "grid.json", tmp_path / "out"
    file.write_text(json.dumps(GRID))
    assert main(["sweep", str(file), "--out", str(out), "--most", "3"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[:3] for line in text.splitlines() if line.startswith("00")] == [
        ["000", "0.9", "0.001"],
        ["001", "0.99", "0.001"],
    ]
    assert "Best by goal_success: point 00" in text
    assert f"table     {out}/summary.csv\n" in text
    assert (out / "figures" / "heat_map.png").read_bytes().startswith(b"\x89PNG")
    summary = (out / "summary.json").read_bytes()
    best = json.loads(summary)["best"]["point"]
    assert (out / "points" / best / "report.html").is_file()

    check_rejected(["sweep", file, "--out", out], "already holds a sweep. Continue it with --resume")
    monkeypatch.setattr(points, "run_lanes", lambda *_, **__: pytest.fail("a finished stage is computed again"))
    assert main(["sweep", str(file), "--out", str(out), "--resume"]) == 0
    assert "Best by goal_success: point 00" in capsys.readouterr().out
    assert (out / "summary.json").read_bytes() == summary

    file.write_text(json.dumps(GRID | {"metric": "goal_distance"}))
    check_rejected(["sweep", file, "--out", out, "--resume"], "holds a sweep of another grid")


def test_an_interrupted_sweep_says_how_to_continue(tmp_path, capsys, monkeypatch):
    file, out = tmp_path / "grid.json", tmp_path / "out"
    file.write_text(json.dumps(GRID))

    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(chunk_work, "run_group", interrupted)
    assert main(["sweep", str(file), "--out", str(out)]) == 130
    assert f"Continue with: edl sweep {file} --out {out} --resume\n" in capsys.readouterr().err
    assert main(["sweep", str(file), "--out", str(out), "--resume"]) == 130
    assert f"Continue with: edl sweep {file} --out {out} --resume\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, r"\[grid\] in .* is empty"),
        ({"grid": {"learner.ppo.gama": [0.9]}}, "Did you mean 'gamma'"),
        ({"metric": "goal_succes"}, "Did you mean 'goal_success'"),
    ],
)
def test_bad_grids_are_rejected_and_nothing_is_written(tmp_path, check_rejected, changes, message):
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(GRID | changes))
    check_rejected(["sweep", file, "--out", tmp_path / "out"], message)
    assert not (tmp_path / "out").exists()
    check_rejected(["sweep", file, "--max-lanes", "-1"], r"--max-lanes must be at least 0 \(got -1\)")


def test_missing_packages_and_options_that_do_not_fit_are_rejected_first(tmp_path, check_rejected, monkeypatch):
    file, out = tmp_path / "grid.json", tmp_path / "out"
    file.write_text(json.dumps(GRID))
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "optuna", None)
    for command in (["sweep", file], ["run", "--env", "square"]):
        words = [*command, "--out", out]
        check_rejected([*words, "--executor", "ray"], r"needs Ray\. In a checkout, pip install '\.\[ray\]'")
        check_rejected([*words, "--workers", "2"], "--workers 2 needs --executor processes or ray")
        check_rejected([*words, "--executor", "processes", "--address", "auto"], "--address needs --executor ray")
    space = {"learner.ppo.gamma": {"low": 0.9, "high": 0.99}}
    file.write_text(json.dumps({"run": RUN, "search": {"method": "optuna", "points": 2, "space": space}}))
    check_rejected(["sweep", file, "--out", out], r"needs Optuna\. In a checkout, pip install '\.\[tune\]'")
    assert list(tmp_path.iterdir()) == [file]

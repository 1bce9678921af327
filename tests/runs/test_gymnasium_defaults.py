"""With default settings, skills reach their goals in Gymnasium envs: the aims of benchmarks/gymnasium_defaults.py."""

import json
import os
import runpy
import threading
from pathlib import Path

import pytest

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "gymnasium_defaults.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARK["ENVS"])
def test_skills_reach_their_goals(name, tmp_path):
    flags, aim = BENCHMARK["ENVS"][name]
    found = BENCHMARK["run_seed"](flags, 0, tmp_path, [])
    assert found.success >= aim
    assert found.claim["holds"]
    assert found.metrics["proof"]["verdict"].startswith("better than random")


def outcome(score: float) -> tuple:
    claim = {"random": 0.1, "ci95": [score - 0.2, score], "holds": True}
    proof = {"verdict": "better than random", "claims": {"goals": claim}}
    return BENCHMARK["Outcome"]({"per_seed": [{"goal_success": score}], "proof": proof}, 60.0, 50.0)


@pytest.fixture
def played(monkeypatch):
    """The runs of `run_all`, without a real run: env, seed, and the cores of the thread."""
    runs = []

    def run_seed(flags, seed, folder, extra, *, cold):
        assert folder.is_dir()
        runs.append((flags[1], seed, frozenset(os.sched_getaffinity(0))))
        return outcome(0.5 + seed / 10)

    monkeypatch.setitem(BENCHMARK["run_all"].__globals__, "run_seed", run_seed)
    return runs


def test_runs_are_written_and_not_repeated(tmp_path, played):
    file, cores = tmp_path / "rows.jsonl", os.sched_getaffinity(0)
    parse, read_rows, run_all = (BENCHMARK[name] for name in ("parse", "read_rows", "run_all"))
    run_all(parse(["Pendulum-v1", "--seeds", "0", "--out", str(file)]), [])
    assert read_rows(file)[0]["goal_success"] == 0.5
    more = parse(["Pendulum-v1", "drone", "--seeds", "0", "1", "--out", str(file)])
    rows = run_all(more, read_rows(file))
    new = [("drone:Drone", 0), ("Pendulum-v1", 1), ("drone:Drone", 1)]
    assert [run[:2] for run in played] == [("Pendulum-v1", 0), *new]
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows
    assert os.sched_getaffinity(0) == cores  # only the threads of the runs are pinned
    text = BENCHMARK["table"](["Pendulum-v1", "drone"], rows)
    assert "| Pendulum-v1 (aim 0.8) | 0.550 | 0.500 to 0.600 | 0.500 0.600 | 0.100 | 0.450 |" in text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_runs_side_by_side_have_cores_of_their_own(played, monkeypatch):
    meet, inner = threading.Barrier(2, timeout=30), BENCHMARK["run_all"].__globals__["run_seed"]

    def run_seed(*arguments, cold):
        meet.wait()  # both runs are under way
        return inner(*arguments, cold=cold)

    monkeypatch.setitem(BENCHMARK["run_all"].__globals__, "run_seed", run_seed)
    BENCHMARK["run_all"](BENCHMARK["parse"](["drone", "--seeds", "0", "1", "--jobs", "2", "--cores", "1"]), [])
    (first, second) = (cores for *_, cores in played)
    assert len(first) == len(second) == 1
    assert not first & second


def test_too_many_jobs_are_refused():
    with pytest.raises(SystemExit, match="--jobs 1000 with 2 cores each needs 2000 cores"):
        BENCHMARK["core_groups"](1000, 2)

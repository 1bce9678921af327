"""``edl downstream`` over two runs: table, files and curves."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
import tyro

import edl
from edl.cli import downstream as command
from edl.cli import main
from edl.envs.maze import maze
from edl.runs import store
from edl.runtime import effort
from edl.runtime.effort import Effort
from tests.probes.plane import plane

CONTROL = ["--num-goals", "2", "--control.env-steps", "400", "--control.rollouts", "4", "--control.minibatches", "1"]
CONTROL += ["--control.epochs", "1", "--control.hidden", "4"]


@pytest.fixture
def quick_compiling(monkeypatch):
    monkeypatch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])


@pytest.mark.slow
def test_one_table_over_runs(copied: Path, tmp_path: Path, capsys, quick_compiling):
    other, table = Path(shutil.copytree(copied, tmp_path / "edl")), tmp_path / "tables" / "downstream.md"
    metrics = json.loads((other / "metrics.json").read_text())
    store.Folder(other).write_json("metrics.json", metrics | {"steps": {"explore": 100, "learn": 300}})
    capsys.readouterr()
    assert main(["downstream", str(copied), str(other), *CONTROL, "--markdown", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "copied (edl): controller" in printed
    assert "PPO without skills, total of edl" in printed

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.read_text().splitlines()]
    # The run explores in 4 x 8 episodes of 50 steps, and learns in 40 x 4.
    assert [row[:4] for row in (rows[0], *rows[2:])] == [
        ["learner", "pretraining", "task", "total"],
        ["copied (edl): controller", "9,600", "400", "10,000"],
        ["copied (edl): zero-shot", "9,600", "0", "9,600"],
        ["edl: controller", "400", "400", "800"],
        ["edl: zero-shot", "400", "0", "400"],
        ["PPO without skills", "0", "400", "400"],
        ["PPO without skills, total of edl", "0", "800", "800"],
        ["PPO without skills, total of copied (edl)", "0", "10,000", "10,000"],
    ]
    for path, total in ((copied, 10_000), (other, 800)):
        saved = json.loads((path / "downstream.json").read_text())
        assert saved["flat_full"]["env_steps"] == saved["steps"]["total"] == total
        assert len(saved["flat"]["per_task"]) == 2
        assert (path / "figures" / "downstream.png").is_file()
        run = edl.load(path)
        skill = run.controllers().choose(jax.random.key(0), jnp.zeros(2), task=1)
        assert 0 <= int(skill) < run.config.num_skills


@pytest.mark.slow
def test_the_full_budget_can_be_left_out(copied: Path, capsys, quick_compiling):
    assert main(["downstream", str(copied), *CONTROL, "--no-full-budget"]) == 0
    assert "total of" not in capsys.readouterr().out
    saved = json.loads((copied / "downstream.json").read_text())
    assert "flat_full" not in saved
    assert saved["flat"]["env_steps"] == saved["env_steps"] == 400


def test_bad_input_is_rejected(check_rejected, copied: Path):
    check_rejected(["downstream", copied, copied], "a run is named twice")
    check_rejected(
        ["downstream", copied, "--num-goals", "2", "--control.hold", "7"], r"hold must divide the 50 steps.*got 7"
    )
    check_rejected(["downstream", copied, "--num-goals", "1000"], r"num_goals must be at most \d+ in this env")
    assert not (copied / "downstream.json").exists()


def test_a_task_must_exist_and_fit_the_env(copied: Path, capsys):
    assert main(["downstream", str(copied), "--task", "ant_multigoal"]) == 2
    assert "unknown task 'ant_multigoal'. Did you mean 'ant_multi_goal'?" in capsys.readouterr().err
    assert main(["downstream", str(copied), "--task", "half_cheetah_goal"]) == 2
    assert "task 'half_cheetah_goal' needs an env with 1 feature (got env" in capsys.readouterr().err
    assert main(["downstream", str(copied), "--task", "ant_multi_goal"]) == 2
    assert "task 'ant_multi_goal' needs an open env in JAX (got env" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "words", "radius"), [(plane(), [], 1.0), (maze("square"), [], 0.5), (plane(), ["--radius=3"], 3.0)]
)
def test_a_goal_is_reached_where_goal_success_says_so(monkeypatch, env, words, radius):
    asked, run = [], SimpleNamespace(states=True, env=env)
    monkeypatch.setattr(command, "load", lambda path, env: run)
    monkeypatch.setattr(command.downstream, "tasks_of", lambda run, num_goals, radius, seed: asked.append(radius))
    monkeypatch.setattr(command.downstream, "compare_runs", lambda *_, **__: [])
    monkeypatch.setattr(command, "_draw", lambda results: None)
    monkeypatch.setattr(command, "results_table", lambda results: "")
    assert command.train(tyro.cli(command.Options, args=["run", *words])) == 0
    assert asked == [radius]

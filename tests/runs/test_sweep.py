"""A sweep: every point equals its run alone, shared stages run once, and a stopped sweep can be resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.envs.maze import maze
from edl.interop.gymnasium_envs import host_env
from edl.learn import learn, placement
from edl.runs import grid as grids
from edl.runs import lanes, store, sweep
from edl.runs.driver import Work
from edl.runs.executors import LocalExecutor, ThreadExecutor
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import identity, plan
from edl.runs.progress import SilentProgress
from tests.interop.hosted import Line

RUN = {
    "env": "square",
    "explore": "random_walk",
    "discover": "kmeans",
    "num_skills": 3,
    "num_seeds": 2,
    "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 2, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}
ASKED = {"run": RUN, "grid": {"learner.ppo.gamma": [0.9, 0.99], "learner.ppo.learning_rate": [1e-3, 1e-2]}}
GRID = grids.parse(ASKED, "sweep.json")


class CountedStages(SilentProgress):
    """Records the stages that start, and the env steps per iteration of all their lanes."""

    def __init__(self):
        self.started = []
        self.env_steps = {}

    def stage_started(self, stage, iterations):
        self.started.append(stage)

    def stage_advanced(self, stage, progress):
        self.env_steps[stage.partition(" ")[0]] = progress.env_steps  # without the number of the chunk


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    return out, sweep.sweep(GRID, out, max_lanes=8)


def policy(out, point):
    return jax.tree.leaves(edl.load(out / "points" / point).policy)


def settings_of(point):
    return {name: getattr(point.config, name) for name in (*RUN, "preset")}


def number_of_identities(name, group):
    return len({identity(stage, point.config) for point in group for stage in plan(point.config) if stage.name == name})


@pytest.mark.slow
def test_a_point_equals_its_run_alone(swept):
    out, _ = swept
    point = GRID.points[3]
    alone = edl.run(**settings_of(point))
    for one, other in zip(jax.tree.leaves(alone.policy), policy(out, point.name), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    loaded = edl.load(out / "points" / point.name)
    assert loaded.config == point.config
    assert [row["stage"] for row in loaded.log if row["stage"] != "discover"] == ["explore"] * 4 + ["learn"] * 2
    assert loaded.metrics["steps"]["learn"] == 2 * 4 * 50


@pytest.mark.slow
def test_a_point_has_the_placed_goals_of_its_run(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "MIN_SAVING", 0.0)  # so that goals move in an open room
    learner = RUN["learner"] | {"distance": "walking", "walking": {"landmarks": 32, "neighbours": 8, "episodes": 50}}
    asked = {"run": RUN | {"num_skills": 4, "learner": learner}, "grid": {"learner.ppo.gamma": [0.9, 0.99]}}
    grid = grids.parse(asked, "sweep.json")
    sweep.sweep(grid, tmp_path / "out")
    run, loaded = edl.run(**settings_of(grid.points[1])), edl.load(tmp_path / "out" / "points" / "001")
    np.testing.assert_allclose(run.skills.goals, loaded.skills.goals)
    discovered = edl.run(**settings_of(grid.points[1]), until="discover").skills.goals
    assert not np.allclose(discovered, loaded.skills.goals)
    assert number_of_identities("place", grid.groups[0]) == 1


@pytest.mark.slow
def test_points_share_early_stages_and_differ_in_learning(swept):
    out, _ = swept
    first, last = edl.load(out / "points" / "000"), edl.load(out / "points" / "003")
    np.testing.assert_array_equal(first.states.samples, last.states.samples)
    assert not np.allclose(first.policy.codes, 0)
    assert any(not np.array_equal(a, b) for a, b in zip(policy(out, "000"), policy(out, "003"), strict=True))
    assert number_of_identities("discover", GRID.groups[0]) == 1
    assert number_of_identities("learn", GRID.groups[0]) == 4


@pytest.mark.slow
def test_the_summary_names_the_best_point(swept):
    out, summary = swept
    kept = json.loads((out / "summary.json").read_text())
    means = [row["goal_success"] for row in kept["points"]]
    assert kept["best"]["goal_success"] == max(means)
    assert kept["best"]["goal_success_low"] <= max(means) <= kept["best"]["goal_success_high"]
    assert (out / "summary.csv").read_text().count("\n") == 5
    assert "Best by goal_success" in (out / "summary.md").read_text()
    assert (out / "figures" / "heat_map.png").read_bytes().startswith(b"\x89PNG")
    best = GRID.points[summary.best]
    assert (out / "points" / best.name / "report.html").is_file()


@pytest.mark.slow
def test_a_resumed_sweep_computes_only_what_is_missing(swept, tmp_path):
    finished, _ = swept
    out, counted = tmp_path / "out", CountedStages()
    sweep.sweep(GRID, out, max_lanes=8, progress=counted)
    assert counted.env_steps["explore"] == 8 * 50 * 2  # two seeds, once for all four points
    assert counted.env_steps["learn"] == 4 * 50 * 2 * 4
    before = policy(out, "002")
    lost = out / "points" / "002"
    progress = json.loads((lost / "checkpoint" / "progress.json").read_text())
    store.Folder(lost).write_json(store.PROGRESS, {n: progress[n] for n in ("explore", "discover")})
    (lost / "policy.safetensors").unlink()
    untouched = (out / "points" / "001" / "policy.safetensors").stat().st_mtime_ns
    counted = CountedStages()
    sweep.sweep(GRID, out, resume=True, progress=counted)
    assert counted.started == ["learn", "evaluate"]
    assert (out / "points" / "001" / "policy.safetensors").stat().st_mtime_ns == untouched
    for one, other in zip(before, policy(out, "002"), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    assert json.loads((out / "summary.json").read_text()) == json.loads((finished / "summary.json").read_text())


def test_another_grid_is_not_resumed_and_a_sweep_is_not_overwritten(tmp_path):
    out = tmp_path / "out"
    with sweep.open_sweep(GRID, out, resume=False) as folder:
        assert folder.path == out
        with pytest.raises(ConfigError, match="another process"), sweep.open_sweep(GRID, out, resume=True):
            pass
    with (
        pytest.raises(ConfigError, match=r"already holds a sweep\. Continue it with --resume"),
        sweep.open_sweep(GRID, out, resume=False),
    ):
        pass
    with sweep.open_sweep(GRID, out, resume=True) as folder:
        assert folder.path == out
    other = grids.parse({"run": RUN, "grid": {"learner.ppo.gamma": [0.5]}}, "sweep.json")
    with pytest.raises(ConfigError, match="holds a sweep of another grid"), sweep.open_sweep(other, out, resume=True):
        pass


def test_memory_limits_the_lanes_per_batch(monkeypatch):
    work, keys = Work(learn, (), ()), jax.random.split(jax.random.key(0), 10)
    monkeypatch.setattr(lanes, "needed_memory", lambda work, width, mesh: 100 * width)
    monkeypatch.setattr(lanes, "free_memory", lambda devices: 450)
    assert lanes.fitting_width(work, keys, 10, None) == 4  # three batches: 4, 4 and 2
    monkeypatch.setattr(lanes, "free_memory", lambda devices: 10_000)
    assert lanes.fitting_width(work, keys, 10, None) == 10


def sweep_on_eight_devices(asked: str, out: str) -> None:
    """Called in a subprocess."""
    assert len(jax.devices()) == 8
    sweep.sweep(grids.read(asked), out)


@pytest.mark.slow
def test_eight_devices_and_batches_give_the_same_numbers(swept, tmp_path):
    out, _ = swept
    asked = tmp_path / "grid.json"
    asked.write_text(json.dumps(ASKED))
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    code = "import sys; from tests.runs.test_sweep import sweep_on_eight_devices; sweep_on_eight_devices(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(asked), str(tmp_path / "many")]
    subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], check=True)
    sweep.sweep(GRID, tmp_path / "batches", max_lanes=3)
    for point in GRID.points:
        for other in ("many", "batches"):
            pairs = zip(policy(out, point.name), policy(tmp_path / other, point.name), strict=True)
            for one, two in pairs:
                np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)


def test_chunks_in_an_env_outside_of_jax_do_not_run_in_threads(monkeypatch):
    """Threads would share the host of the env, and an env that fails would stop them all."""
    monkeypatch.setattr(jax, "devices", lambda: ["one", "two"])
    line, square = host_env("line", Line, Line(), None, 6, 0), maze("square")
    for envs, expected in [([square], ThreadExecutor), ([square, line], LocalExecutor)]:
        executor = sweep.make_executor(sweep.Execution(), "out", Interrupt(), None, envs)
        assert type(executor) is expected
        executor.close()

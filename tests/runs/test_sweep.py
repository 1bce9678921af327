"""A sweep: the same numbers alone, in company, in parts, and on any number of devices."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import edl
from edl.runs import grid as grids
from edl.runs import lanes, sweep
from edl.runs.driver import Work
from edl.runs.sharing import places_of
from edl.learn import learn, placement

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


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    return out, sweep.sweep(GRID, out)


def policy(out, point):
    return jax.tree.leaves(edl.load(out / "points" / point).policy)


def asked_for(point):
    return {name: getattr(point.config, name) for name in (*RUN, "preset")}


@pytest.mark.slow
def test_a_point_is_the_run_that_it_stands_for(swept, tmp_path):
    out, _ = swept
    point = GRID.points[3]
    alone = edl.run(**asked_for(point))
    for one, other in zip(jax.tree.leaves(alone.policy), policy(out, point.name), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    loaded = edl.load(out / "points" / point.name)
    assert loaded.config == point.config
    assert [row["stage"] for row in loaded.log if row["stage"] != "discover"] == ["explore"] * 4 + ["learn"] * 2
    assert loaded.metrics["steps"]["learn"] == 2 * 4 * 50


@pytest.mark.slow
def test_a_point_has_the_goals_that_its_run_has(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "WORTHWHILE", 0.0)  # so that goals move in an open room
    learner = RUN["learner"] | {"distance": "walking", "walking": {"landmarks": 32, "neighbours": 8, "episodes": 50}}
    asked = {"run": RUN | {"num_skills": 4, "learner": learner}, "grid": {"learner.ppo.gamma": [0.9, 0.99]}}
    grid = grids.parse(asked, "sweep.json")
    sweep.sweep(grid, tmp_path / "out")
    run, loaded = edl.run(**asked_for(grid.points[1])), edl.load(tmp_path / "out" / "points" / "001")
    np.testing.assert_allclose(run.skills.goals, loaded.skills.goals)
    discovered = edl.run(**asked_for(grid.points[1]), until="discover").skills.goals
    assert not np.allclose(discovered, loaded.skills.goals)
    assert places_of("place", grid.groups[0]) == ([0], [0, 0])


@pytest.mark.slow
def test_settings_matter_and_shared_stages_are_shared(swept):
    out, _ = swept
    first, last = edl.load(out / "points" / "000"), edl.load(out / "points" / "003")
    np.testing.assert_array_equal(first.states.samples, last.states.samples)
    assert not np.allclose(first.policy.codes, 0)
    assert any(not np.array_equal(a, b) for a, b in zip(policy(out, "000"), policy(out, "003"), strict=True))
    assert places_of("discover", GRID.groups[0]) == ([0], [0, 0, 0, 0])
    assert places_of("learn", GRID.groups[0]) == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.slow
def test_the_summary_names_the_best(swept):
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


def test_memory_bounds_the_width(monkeypatch):
    work, keys = Work(learn, (), ()), jax.random.split(jax.random.key(0), 10)
    monkeypatch.setattr(lanes, "memory", lambda work, keys, width: 100 * width)
    monkeypatch.setattr(lanes, "free_memory", lambda devices: 450)
    assert lanes.fitting(work, keys, 10) == 4  # three parts: 4, 4 and 2
    monkeypatch.setattr(lanes, "free_memory", lambda devices: 10_000)
    assert lanes.fitting(work, keys, 10) == 10


SCRIPT = """
import sys
import jax
from edl.runs import grid, sweep
assert len(jax.devices()) == 8
sweep.sweep(grid.read(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
def test_eight_devices_and_parts_give_the_same_numbers(swept, tmp_path):
    out, _ = swept
    asked = tmp_path / "grid.json"
    asked.write_text(json.dumps(ASKED))
    settings = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SCRIPT, str(asked), str(tmp_path / "many")], env=settings, check=True)
    sweep.sweep(GRID, tmp_path / "parts", most=3)
    for point in GRID.points:
        for other in ("many", "parts"):
            pairs = zip(policy(out, point.name), policy(tmp_path / other, point.name), strict=True)
            for one, two in pairs:
                np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)

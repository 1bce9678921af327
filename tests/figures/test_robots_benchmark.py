"""benchmarks/robots.py: the figure of floor coverage, and what is said if there is none."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "robots.py"
POINTS = [{"env_steps": steps, "seconds": steps / 10, "floor_coverage": [steps, 2 * steps]} for steps in (10, 20)]
ROWS = {
    "ant/beyond": {
        "mean": {"floor.random_floor_coverage": 5.0},
        "steps": {"explore": 20},
        "curve": [{**point, "directions": [30, 40]} for point in POINTS],
    },
    "ant/edl": {
        "mean": {"floor.random_floor_coverage": 5.0},
        "steps": {"explore": 10, "learn": 10},
        "curve": POINTS,
    },
    "ant/metra": {
        "mean": {"floor.random_floor_coverage": 5.0},
        "steps": {"learn": 20},
        "curve": POINTS,
        "shared_gpu": True,
    },
    "ant:bottleneck/beyond": {"mean": {"cells": 0.5, "share_of_rooms": 0.5}, "steps": {}, "curve": []},
}


def draw(monkeypatch, folder, env):
    table = folder / "robots.json"
    table.write_text(json.dumps({"rows": ROWS}))
    words = ["--env", env, "--table", str(table), "--out", str(folder / "robots.png")]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_the_curves_of_a_robot_in_the_open_are_drawn(monkeypatch, tmp_path):
    draw(monkeypatch, tmp_path, "ant")
    assert (tmp_path / "robots.png").read_bytes().startswith(b"\x89PNG")


def test_a_curve_has_no_shared_exploration_and_an_explorer_has_one_for_directions():
    curves_of = runpy.run_path(str(SCRIPT))["curves_of"]
    explorer = curves_of("beyond", ROWS["ant/beyond"])
    assert {label: [point["floor_coverage"] for point in curve] for label, curve in explorer.items()} == {
        "explorer beyond, told goals": [[10, 20], [20, 40]],
        "explorer beyond, told directions": [[30, 40], [30, 40]],
    }
    assert curves_of("edl", ROWS["ant/edl"]) == {"EDL, from the explorer's policy": POINTS[1:]}
    assert list(curves_of("metra", ROWS["ant/metra"])) == ["METRA\n(next to other programs)"]


@pytest.mark.parametrize("env", ["ant:bottleneck", "half_cheetah", "no_such_env"])
def test_without_floor_coverage_there_is_a_message(monkeypatch, tmp_path, capsys, env):
    with pytest.raises(SystemExit) as ended:
        draw(monkeypatch, tmp_path, env)
    assert ended.value.code == 2
    assert f"has no floor coverage in env '{env}'. Only robots in the open have any" in capsys.readouterr().err
    assert not (tmp_path / "robots.png").exists()

"""The tables of robots: rows, runs with snapshots and shared exploration, rooms, and views."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from edl.envs import layouts
from edl.hierarchy.tasks import TaskConfig
from edl.interop.env_names import remember_factory
from edl.runs.interrupt import Interrupt, Interrupted
from edl.runs.points import open_point
from edl.runs.resolve import make_context, resolve_config
from edl.runs.snapshots import run_measured
from edl.tables import TableSettings, make, robots
from edl.tables.make import jobs_of
from edl.tables.robots import at, flat_numbers, room_of_cells, room_result
from edl.tables.table import Row
from tests.laws.cases import shrink
from tests.probes.plane import plane
from tests.tables.tiny import tiny_robot

ENV = "python:open_plane"


def open_plane():
    """The env of these tests, found by its name."""
    return plane()


def tiny(config):
    if config.method != "edl":
        return dataclasses.replace(config, num_skills=3, baseline=shrink(config.baseline))
    return tiny_robot(config)


SETTINGS = TableSettings(num_seeds=2, steps=64, adjust=tiny)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The explorer and EDL on a plane, in one job."""
    folder = tmp_path_factory.mktemp("robots")
    remember_factory(open_plane, ENV)
    rows = []
    for method in (robots.BEYOND, "edl"):
        config = resolve_config(robots.config_of(SETTINGS, ENV, method))
        until = "explore" if method == robots.BEYOND else "learn"
        rows.append(Row("robots", f"{ENV}/{method}", config, {"method": method}, until, runner=robots.run_rows))
    (job,) = jobs_of(rows)
    return folder, job, make.execute(folder, job).results


@pytest.mark.slow
def test_rows_that_explore_alike_are_one_job_and_explore_once(measured):
    _, job, results = measured
    assert [row.key for row in job.rows] == list(results) == [f"{ENV}/beyond", f"{ENV}/edl"]
    explorer, edl = results.values()
    assert explorer["steps"] == {"explore": 3 * 8 * 8}
    assert edl["steps"] == {"explore": 3 * 8 * 8, "learn": 2 * 4 * 8}
    assert edl["curve"][: len(explorer["curve"])] == explorer["curve"]
    assert explorer["curve"][-1]["env_steps"] == 192
    assert edl["curve"][-1]["env_steps"] == 192 + 64
    assert edl["curve"][-1]["seconds"] >= edl["seconds"]["explore"]


@pytest.mark.slow
def test_the_last_point_of_a_curve_is_the_result(measured):
    explorer = measured[2][f"{ENV}/beyond"]
    assert explorer["curve"][-1]["floor_coverage"] == [seed["floor_coverage"] for seed in explorer["per_seed"]]
    assert explorer["per_seed"][0]["floor"]["told_by"] == "the goal g"
    assert 1 <= explorer["mean"]["floor_coverage"] <= 200
    assert set(explorer["mean"]) >= {"floor.goals.far.within_3", "floor.random_floor_coverage", "floor.high.1"}


@pytest.mark.slow
def test_the_curve_so_far_is_kept_if_a_row_is_killed(tmp_path):
    remember_factory(open_plane, ENV)
    config = resolve_config(robots.config_of(SETTINGS, ENV, robots.BEYOND))
    point, values = open_point("row", config, tmp_path / "run"), [[5, 6]]

    def measure(stage, artifact):
        if not values:
            raise MemoryError
        return values.pop()

    with pytest.raises(MemoryError):
        run_measured(point, make_context(config), Interrupt(), measure, until="explore")
    (found,) = json.loads((tmp_path / "run" / "curve_explore.json").read_text())["curve"]
    assert (found["env_steps"], found["value"]) == (8 * 8, [5, 6])
    assert not point.finished


def test_a_row_that_was_stopped_continues_with_the_same_bits_and_curve(tmp_path):
    remember_factory(open_plane, ENV)
    config = resolve_config(robots.config_of(SETTINGS, ENV, robots.BEYOND))
    context, interrupt = make_context(config), Interrupt()
    measured = []

    def measure(stage, artifact):
        measured.append(int(artifact.samples.shape[0]))
        return [len(measured)]

    def stop(stage, artifact):
        interrupt.number = 2
        return measure(stage, artifact)

    def run(name, interrupt, measure):
        return run_measured(open_point(name, config, tmp_path / name), context, interrupt, measure, until="explore")

    with pytest.raises(Interrupted):
        run("stopped", interrupt, stop)
    continued = run("stopped", Interrupt(), measure)["explore"]
    assert len(measured) == 2  # after iterations 1 and 3: it was stopped after 2, before the measurement
    assert [(each["env_steps"], each["value"]) for each in continued.curve] == [(64, [1]), (192, [2])]
    whole = run("whole", Interrupt(), measure)["explore"]
    jax.tree.map(np.testing.assert_array_equal, continued.artifact, whole.artifact)
    assert [row["iteration"] for row in continued.rows] == [row["iteration"] for row in whole.rows] == [1, 2, 3]
    assert not (tmp_path / "stopped" / "checkpoint" / "state.safetensors").exists()


@pytest.mark.slow
def test_finished_stages_are_loaded(measured, monkeypatch):
    folder, job, results = measured
    monkeypatch.setattr("edl.runs.snapshots.run_stage", lambda *args: pytest.fail("a stage ran again"))
    again = robots.run_rows(folder, job.rows, Interrupt())
    for key in results:
        assert again[key]["per_seed"] == results[key]["per_seed"]
        assert again[key]["curve"] == results[key]["curve"]


def test_a_stage_that_another_run_has_finished_is_loaded_from_there(tmp_path, monkeypatch):
    remember_factory(open_plane, ENV)
    config = resolve_config(robots.config_of(SETTINGS, ENV, robots.BEYOND))
    context = make_context(config)
    first = open_point("first", config, tmp_path / "first")
    explored = run_measured(first, context, Interrupt(), lambda stage, artifact: None, until="explore")["explore"]
    monkeypatch.setattr("edl.runs.snapshots.run_stage", lambda *args: pytest.fail("explored again"))
    second = open_point("second", config, tmp_path / "second")
    again = run_measured(second, context, Interrupt(), lambda stage, artifact: None, until="explore", runs=tmp_path)[
        "explore"
    ]
    assert again.facts == explored.facts
    assert np.array_equal(again.artifact.samples, explored.artifact.samples)
    assert second.folder.has("states.safetensors")


@pytest.mark.slow
def test_the_views_show_the_rows(measured):
    text = robots.view({key.replace(ENV, "ant"): result for key, result in measured[2].items()})
    assert "| explorer `beyond`, told goals |" in text
    assert "Not measured: EDL, stage 3 from scratch, METRA, CSF, CSD, LSD, CIC, APT, DIAYN." in text
    assert "| random actions |" in text
    assert "the skill q(z|x), with x = g" in text
    assert "half_cheetah: not measured." in text


@pytest.mark.slow
def test_controllers_are_trained_on_the_runs_of_the_table(measured, monkeypatch):
    folder, job, _ = measured
    small = TaskConfig(hold=4, rollouts=4, env_steps=32, epochs=1, minibatches=1, hidden=(4,))
    monkeypatch.setattr(robots, "TaskConfig", lambda: small)
    monkeypatch.setattr("edl.runs.snapshots.run_stage", lambda *args: pytest.fail("a stage ran again"))
    facts = {"method": "beyond", "task": "ant_multi_goal"}
    task = job.rows[0]._replace(table="robot_tasks", key="ant_multi_goal/beyond", facts=facts)
    task = task._replace(runner=robots.run_task_rows)
    (result,) = robots.run_task_rows(folder, [task], Interrupt()).values()
    assert result["measured"]["skills_named_by"] == "goals"
    assert result["measured"]["controller"]["env_steps"] == result["measured"]["flat"]["env_steps"] == 32
    text = robots.tasks_view({"ant_multi_goal/beyond": result})
    assert "| ant_multi_goal | none (PPO without skills) |" in text


def test_coverage_at_a_number_of_steps_is_interpolated():
    curve = [{"env_steps": 100, "floor_coverage": [10, 20]}, {"env_steps": 200, "floor_coverage": [30, 40]}]
    assert at(curve, "env_steps", 150) == 25
    assert at(curve, "env_steps", 50) == 7.5
    assert at(curve, "env_steps", 201) is None


def test_numbers_of_nested_results_have_paths():
    tree = {"a": {"b": 1, "c": [2.0, 3.0], "d": "text"}, "e": True}
    assert flat_numbers(tree) == {"a.b": 1, "a.c.0": 2, "a.c.1": 3}


def test_rooms_of_the_bottleneck_are_separated_by_walls():
    layout = layouts.load("bottleneck")
    rooms = room_of_cells("bottleneck", layout.cells)
    index = {tuple(cell): i for i, cell in enumerate(layout.cells)}
    doors = {}
    for i, cell in enumerate(layout.cells):
        for move, is_open in zip(((1, 0), (0, 1)), layout.passages[i][:2], strict=True):
            other = index.get((cell[0] + move[0], cell[1] + move[1]))
            if is_open and other is not None and rooms[i] != rooms[other]:
                pair = "".join(sorted(rooms[i] + rooms[other]))
                doors[pair] = doors.get(pair, 0) + 1
    assert doors == {"CE": 1, "BE": 1, "EF": 1, "BD": 2, "AD": 2}  # the number of cells that a door is wide
    assert rooms[index[tuple(layout.starts[0])]] == "C"
    start = np.asarray(layout.starts[0])
    paths = np.stack(
        [
            np.stack([start, start + np.array([4, 1]), start + np.array([5, 1])]),
            np.stack([start, start, start + np.array([0.4, 0])]),
        ]
    )
    found = room_result(layout, paths)
    assert found["rooms"] == found["rooms_at_the_end"] == ["C", "E"]
    assert found["cells"] == 3 / 100
    assert found["share_of_rooms"] == 2 / 6


def test_a_baseline_gets_whole_iterations_for_its_steps():
    config = dataclasses.replace(TableSettings().config("square", "diayn"), horizon=50)
    per_iteration = config.baseline.sac.rollouts * 50
    for steps, iterations in ((1, 1), (per_iteration, 1), (per_iteration + 1, 2)):
        assert robots.with_steps(config, steps).baseline.sac.iterations == iterations


def test_rows_for_numbers_of_envs_have_the_same_steps_and_updates():
    rows = {row.facts["envs"]: row.config for row in robots.envs_rows(TableSettings(num_seeds=1), {})}
    assert list(rows) == [8, 64, 256]
    for envs, config in rows.items():
        sac = config.baseline.sac
        assert (sac.rollouts, sac.update_every) == (envs, 32)
        assert 0 <= sac.iterations * envs * config.horizon - robots.ENVS_STEPS < envs * config.horizon


def test_the_view_of_numbers_of_envs():
    numbers = {"floor_coverage": 70.0, "floor.radius": 6.0, "floor.goals.reached.within_3": 0.25}
    result = {"envs": 8, "mean": numbers, "num_seeds": 1, "steps": {"learn": 1_000_000}, "seconds": {"learn": 200.0}}
    about = {"seed": 0, "edl": "0", "commit": None, "device": "GPU", "date": "2026-01-01"}
    text = robots.envs_view({"8": result | about})
    assert "| 8 | 70 | 6 | 0.25 | 1.00M | learn 200 s |" in text
    assert "Not measured: 64 envs, 256 envs." in text
    assert robots.envs_view({}) == "Not measured."


def test_seconds_of_a_row_next_to_other_programs_are_not_compared():
    mean = {"floor_coverage": 100.0, "floor.random_floor_coverage": 5.0, "floor.low.1": 0.0, "floor.radius": 9.0}
    curve = [{"env_steps": 10, "seconds": 50.0, "floor_coverage": [100]}]
    facts = {"num_seeds": 1, "seed": 0, "edl": "1.0", "commit": None, "device": "1 x H200", "date": "2030-01-01"}
    row = {**facts, "mean": mean, "curve": curve, "steps": {"learn": 10}, "seconds": {"learn": 50.0}}
    shared = {**row, "seconds": {"learn": 20.0}, "shared_gpu": True}
    text = robots.coverage_view("ant", {"ant/metra": row, "ant/csf": shared})
    assert "after 50 s" in text  # the faster row does not count
    assert "learn 20 s, next to other programs" in text
    csf = next(line for line in text.splitlines() if line.startswith("| CSF"))
    assert csf.split(" | ")[5] == "-"

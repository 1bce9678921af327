"""A sweep that is interrupted anywhere continues from its checkpoints, and ends with the same bits."""

import json
import shutil
import signal
import time

import jax
import pytest

import edl
from edl.config import ConfigError
from edl.envs.host import EnvError
from edl.runs import chunk_work, driver, lanes, points, sweep
from edl.runs import grid as grids
from edl.runs.errors import RetryableError
from edl.runs.executors import Task, call
from edl.runs.interrupt import Interrupted
from edl.runs.session import read_progress
from edl.runs.store import Folder, locked

RUN = {
    "env": "square",
    "explore": "random_walk",
    "discover": "kmeans",
    "num_skills": 3,
    "num_seeds": 2,
    "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 6, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}
GRID = grids.parse({"run": RUN, "grid": {"learner.ppo.learning_rate": [1e-3, 1e-2]}}, "sweep.json")
OFTEN = sweep.Execution(checkpoint_seconds=0.0)
CHUNK = "chunks/000-1-0000"
"""The chunk that learns the skills of point 000."""
write_summary = sweep.write_summary


class Watched(sweep.SilentWatcher):
    finished = False

    def already_finished(self):
        self.finished = True


def contents(out):
    """Everything that must not depend on interruptions."""
    policies = [edl.load(out / "points" / point.name).policy for point in GRID.points]
    arrays = [leaf.tobytes() for leaf in jax.device_get(jax.tree.leaves(policies))]
    return arrays, (out / "summary.json").read_bytes()


@pytest.fixture(autouse=True)
def a_tick_per_iteration(monkeypatch):
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)


@pytest.fixture(scope="module", autouse=True)
def without_pictures():
    """Sweeps write tables, and no figures or reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "write_summary", lambda folder, summary: sweep.write_json_table(folder, summary))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    sweep.sweep(GRID, out, max_lanes=2)
    return out


class Crash(BaseException):
    """Ends the process, as far as the code under test can tell."""


def test_a_sweep_continues_from_its_checkpoint(whole, tmp_path, monkeypatch):
    out, save = tmp_path / "out", chunk_work.StageCheckpoints.after_tick

    def crash(self, chosen, tick, rows):
        time.sleep(1.0 if self.key.startswith("learn") and tick.position.iteration == 4 else 0.0)
        save(self, chosen, tick, rows)
        if self.key.startswith("learn") and tick.position.iteration == 4:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(chunk_work.StageCheckpoints, "after_tick", crash)
        with pytest.raises(Crash):
            sweep.sweep(GRID, out, max_lanes=2, execution=OFTEN)
    sweep.sweep(GRID, out, resume=True, execution=OFTEN)
    resumed = json.loads((out / CHUNK / "resumed.json").read_text())
    assert resumed == [{"stage": "learn", "iteration": 4}]
    assert contents(out) == contents(whole)
    assert read_progress(Folder(out / "points" / "000"))["learn"]["seconds"] > 1.0  # with the second before the crash

    watched, before = Watched(), {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    sweep.sweep(GRID, out, resume=True, execution=OFTEN, watcher=watched)
    assert watched.finished
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


@pytest.fixture
def unfinished(whole, tmp_path):
    """A sweep one of whose chunks has finished its stages, but has no marker yet."""
    out = shutil.copytree(whole, tmp_path / "out")
    (out / CHUNK / "done.json").unlink()
    return out


def check_is_finished_by_resuming(out, whole):
    sweep.sweep(GRID, out, resume=True)
    assert contents(out) == contents(whole)


def test_a_chunk_that_another_process_runs_is_not_marked_as_failed(whole, unfinished, monkeypatch):
    monkeypatch.setattr(chunk_work, "LOCK_SECONDS", 0.0)
    with (
        locked(Folder(unfinished / CHUNK)),
        pytest.raises(RetryableError, match="another process is working on"),
    ):
        sweep.sweep(GRID, unfinished, resume=True)
    assert not (unfinished / CHUNK / "done.json").exists()
    check_is_finished_by_resuming(unfinished, whole)


@pytest.mark.parametrize("name", ["config.json", "policy.safetensors", "checkpoint/progress.json"])
def test_a_damaged_point_is_named_and_not_marked_as_failed(whole, unfinished, name):
    file = unfinished / "points" / "000" / name
    kept = file.read_bytes()
    file.write_bytes(kept[:-1])
    (unfinished / "points" / "000" / "metrics.json").unlink()
    with pytest.raises(RetryableError, match=f"points/000/{name} is damaged"):
        sweep.sweep(GRID, unfinished, resume=True)
    assert not (unfinished / CHUNK / "done.json").exists()
    file.write_bytes(kept)
    check_is_finished_by_resuming(unfinished, whole)


def test_an_error_that_may_go_away_stays_one_on_its_way_from_a_worker():
    def fails(kind):
        raise kind("no")

    for kind in (RetryableError, ConfigError):
        assert type(call(Task("one", fails, (kind,)))[1]) is kind


@pytest.mark.parametrize("name", ["plan.json", f"{CHUNK}/done.json"])
@pytest.mark.parametrize("content", ["{}", "[1]", '{"lanes": "2", "failed": 1}'])
def test_a_damaged_file_of_a_sweep_is_named(unfinished, name, content):
    (unfinished / name).write_text(content)
    with pytest.raises(RetryableError, match=f"{name} is damaged"):
        sweep.sweep(GRID, unfinished, resume=True)


def test_the_table_that_marks_a_sweep_as_finished_is_written_last(whole, tmp_path, monkeypatch):
    def crash(run, found):
        raise Crash

    monkeypatch.setattr(sweep, "draw_heat_map", lambda summary: b"")
    monkeypatch.setattr(sweep.evaluation, "evaluate_run", lambda run: None)
    monkeypatch.setattr(sweep.evaluation, "draw_figures", crash)
    out = shutil.copytree(whole, tmp_path / "out")
    summary = sweep.finished_summary(GRID, out, None)
    (out / "summary.json").unlink()
    with pytest.raises(Crash):
        write_summary(Folder(out), summary)
    assert (out / "summary.csv").is_file()
    assert not (out / "summary.json").exists()


def test_ctrl_c_in_the_last_iteration_of_a_stage_loses_nothing(whole, tmp_path, monkeypatch):
    out, save = tmp_path / "out", chunk_work.StageCheckpoints.after_tick

    def interrupt(self, chosen, tick, rows):
        if self.key.startswith("learn") and tick.done:
            signal.raise_signal(signal.SIGINT)
        save(self, chosen, tick, rows)

    with monkeypatch.context() as patch:
        patch.setattr(chunk_work.StageCheckpoints, "after_tick", interrupt)
        with pytest.raises(Interrupted):
            sweep.sweep(GRID, out, max_lanes=2)
    assert "learn" in read_progress(Folder(out / "points" / "000"))
    ran, run_lanes = [], points.run_lanes
    monkeypatch.setattr(points, "run_lanes", lambda *args: ran.append(args[0].build.method) or run_lanes(*args))
    sweep.sweep(GRID, out, resume=True)
    assert len(ran) == 1  # the points of the second chunk
    assert contents(out) == contents(whole)


@pytest.mark.slow
def test_out_of_memory_splits_the_chunk(whole, tmp_path, monkeypatch):
    out, attempts, run = tmp_path / "out", [], lanes.advance

    def little_memory(work, keys, *args, **settings):
        attempts.append(len(keys))
        if len(keys) > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
        return run(work, keys, *args, **settings)

    monkeypatch.setattr(lanes, "advance", little_memory)
    sweep.sweep(GRID, out, max_lanes=8)
    assert attempts[-3:] == [4, 2, 2]
    assert contents(out) == contents(whole)  # as with chunks of two lanes


@pytest.mark.slow
def test_a_lane_whose_env_raises_fails_alone_and_is_named(tmp_path, monkeypatch):
    out, run = tmp_path / "out", lanes.run_batch

    def broken_env(work, keys, chosen, runner, number):
        if work.build.method is None and 3 in chosen:  # `learn` has no registry of methods
            raise EnvError("the env raised ValueError: no battery")
        return run(work, keys, chosen, runner, number)

    monkeypatch.setattr(lanes, "run_batch", broken_env)
    summary = sweep.sweep(GRID, out, max_lanes=8)
    assert not summary.failures
    first, second = (summary.metrics[number]["per_seed"] for number in (0, 1))
    assert all("failed" not in seed for seed in first)
    assert [seed.get("failed") for seed in second] == [None, "stage 'learn': the env raised ValueError: no battery"]

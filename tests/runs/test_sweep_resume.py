"""A sweep that is interrupted anywhere continues from its checkpoints, and ends with the same bits."""

import json

import jax
import pytest

import edl
from edl.envs.host import EnvError
from edl.runs import chunk_work, driver, lanes, sweep
from edl.runs import grid as grids

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
        patch.setattr(sweep, "write_summary", lambda folder, summary: sweep.publish(folder, summary, b""))
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
        save(self, chosen, tick, rows)
        if self.key.startswith("learn") and tick.position.iteration == 4:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(chunk_work.StageCheckpoints, "after_tick", crash)
        with pytest.raises(Crash):
            sweep.sweep(GRID, out, max_lanes=2, execution=OFTEN)
    sweep.sweep(GRID, out, resume=True, execution=OFTEN)
    resumed = json.loads((out / "chunks" / "000-1-0000" / "resumed.json").read_text())
    assert resumed == [{"stage": "learn", "iteration": 4}]
    assert contents(out) == contents(whole)

    watched, before = Watched(), {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    sweep.sweep(GRID, out, resume=True, execution=OFTEN, watcher=watched)
    assert watched.finished
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


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

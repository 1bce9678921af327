"""Seeds that run as chunks become one run, with the results of their seeds alone."""

import dataclasses
import signal
import time

import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs.host import EnvError
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import chunks, lanes, many_seeds, points, store
from edl.runs.config import RunConfig
from edl.runs.interrupt import Interrupted
from edl.runs.resolve import resolve_config
from edl.runs.run import create_run
from edl.runs.session import read_progress, seconds_of

CONFIG = RunConfig(
    env="square",
    explore="random_walk",
    discover="kmeans",
    num_skills=3,
    num_seeds=5,
    seed=7,
    explorer=RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
    discoverer=KMeansConfig(),
    learner=LearnConfig(
        distance="euclidean", ppo=PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
    ),
)


def test_every_seed_is_in_one_part():
    parts = [point.config for point in many_seeds.seed_points(CONFIG, 2)]
    seeds = [part.seed + i for part in parts for i in range(part.num_seeds)]
    assert seeds == [7, 8, 9, 10, 11]
    assert max(part.num_seeds for part in parts) == 2


def test_a_part_that_failed_has_nan_and_its_reason():
    good = many_seeds.FinishedSeeds(
        dataclasses.replace(CONFIG, num_seeds=1),
        {"explore": {"x": np.ones((1, 2))}, "learn": {"w": np.ones((1, 3)), "count": np.ones((1,), int)}},
        [{"stage": "explore", "seconds": 1.0}, {"stage": "learn", "seconds": 1.0, "loss": [0.5]}],
        {"explore": {}, "learn": {}},
        None,
    )
    config = dataclasses.replace(CONFIG, seed=8, num_seeds=2)
    own = {"explore": {"x": np.zeros((2, 2))}}
    failed = many_seeds.FinishedSeeds(config, own, good.rows[:1], {"explore": {}}, "no battery")
    found = many_seeds.filled(failed, good, ["explore", "learn"])
    assert found.artifacts["explore"] is own["explore"]
    assert np.isnan(found.artifacts["learn"]["w"]).all()
    assert found.artifacts["learn"]["w"].shape == (2, 3)
    assert found.facts["learn"]["failed"] == {"8": "no battery", "9": "no battery"}
    assert found.rows == [good.rows[0], {"stage": "learn", "seconds": 1.0, "loss": [None, None]}]


def finished_seeds(config, seconds=6.0):
    """What a worker leaves of these seeds, without the work."""
    names, seeds = ("explore", "discover", "learn"), config.num_seeds
    facts = {"seconds": seconds, "compile_seconds": 2.0, "iterations": 1, "env_steps": 8}
    return many_seeds.FinishedSeeds(
        config,
        {name: {"x": np.full((seeds, 2), config.seed, np.float32)} for name in names},
        [{"stage": name, "seconds": seconds, "loss": [0.5] * seeds} for name in names],
        {name: dict(facts) for name in names},
        None,
    )


class Crash(BaseException):
    """Ends the process, as far as the code under test can tell."""


@pytest.fixture
def finished_workers(monkeypatch):
    """The seeds have finished at once. Returns the evaluated runs, which are not evaluated really."""
    evaluated = []

    def evaluate(config, *, out, resume, progress):
        evaluated.append(out)
        return edl.runs.result.Run(config=config, env=edl.make_env("square"), layout=None)

    monkeypatch.setattr(many_seeds, "dry_run", lambda config, context: None)
    monkeypatch.setattr(many_seeds.SweepRun, "run", lambda self: None)
    monkeypatch.setattr(many_seeds, "results_of", lambda folder, points, chunks: ({}, {}))
    monkeypatch.setattr(many_seeds, "read_seeds", lambda folder, point, *_: finished_seeds(point.config))
    monkeypatch.setattr(many_seeds, "execute_run", evaluate)
    return evaluated


def test_a_run_that_is_killed_while_its_seeds_are_joined_is_joined_again(tmp_path, monkeypatch, finished_workers):
    out, place, write = tmp_path / "run", tmp_path / "run-seeds", store.Folder.write_json

    def crash(folder, name, value):
        if name == store.PROGRESS:
            raise Crash
        return write(folder, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(store.Folder, "write_json", crash)
        with pytest.raises(Crash):
            many_seeds.execute_seeds(CONFIG, out)
    assert (place / "joined" / store.CONFIG).is_file()
    assert not out.exists()
    many_seeds.execute_seeds(CONFIG, out, resume=True)
    assert finished_workers == [out]
    assert set(read_progress(store.open_run(out))) == {"explore", "discover", "learn"}
    assert not place.exists()


def test_ctrl_c_while_seeds_are_joined_stops_before_the_evaluation(tmp_path, monkeypatch, finished_workers):
    out, move = tmp_path / "run", store.move_run

    def interrupted(folder, path):
        signal.raise_signal(signal.SIGINT)
        move(folder, path)

    with monkeypatch.context() as patch:
        patch.setattr(store, "move_run", interrupted)
        with pytest.raises(Interrupted):
            many_seeds.execute_seeds(CONFIG, out)
    assert finished_workers == []
    assert (tmp_path / "run-seeds").is_dir()
    many_seeds.execute_seeds(CONFIG, out, resume=True)
    assert finished_workers == [out]
    assert not (tmp_path / "run-seeds").exists()


def test_a_folder_without_a_run_is_not_resumed_and_neither_is_a_run_of_another_kind(tmp_path, finished_workers):
    with pytest.raises(ConfigError, match=r"typo' and .*typo-seeds' hold no run\. Check --out"):
        many_seeds.execute_seeds(CONFIG, tmp_path / "typo", resume=True)
    create_run(resolve_config(CONFIG), tmp_path / "local")
    with pytest.raises(ConfigError, match=r"has not finished stage 'explore'\. Resume it without --executor"):
        many_seeds.execute_seeds(CONFIG, tmp_path / "local", resume=True)
    assert finished_workers == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local"]


def test_seconds_of_a_joined_run_are_wall_clock_time(tmp_path):
    config = resolve_config(CONFIG)
    parts = [finished_seeds(point.config) for point in many_seeds.seed_points(config, 2)]
    folder = many_seeds.join_seeds(config, parts, tmp_path / "run", seconds=12.0)
    found = seconds_of(read_progress(folder))  # three workers spent 72 s on three stages in 12 s
    assert found == pytest.approx({"explore": 3.0, "discover": 3.0, "learn": 3.0, "compile": 3.0, "total": 12.0})
    assert [row["seconds"] for row in folder.read_log()] == [3.0] * 3


def test_seconds_of_a_joined_run_are_those_of_its_only_worker(tmp_path):
    config = resolve_config(CONFIG)
    parts = [finished_seeds(point.config) for point in many_seeds.seed_points(config, 2)]
    folder = many_seeds.join_seeds(config, parts, tmp_path / "run", seconds=100.0)  # its start took 28 s
    assert seconds_of(read_progress(folder))["total"] == pytest.approx(72.0)
    assert [row["seconds"] for row in folder.read_log()] == [3 * 6.0] * 3


def test_attempts_add_up_their_seconds(tmp_path):
    folder, times = store.create(tmp_path / "seeds"), []
    for _ in range(2):
        with many_seeds.SavedClock(folder, began=time.perf_counter() - 10) as clock:
            times.append(clock.seconds)
    assert times == pytest.approx([10, 20], abs=1)


@pytest.mark.slow
def test_a_seed_that_fails_alone_in_its_part_is_named_and_the_others_are_kept(tmp_path, monkeypatch):
    run_batch, learned = lanes.run_batch, []

    def broken_env(work, *arguments):
        learned.extend([True] if work.build.method is None else [])  # `learn` has no registry of methods
        if work.build.method is None and len(learned) == 2:
            raise EnvError("the env raised ValueError: no battery")
        return run_batch(work, *arguments)

    monkeypatch.setattr(lanes, "run_batch", broken_env)
    run = many_seeds.execute_seeds(dataclasses.replace(CONFIG, num_seeds=3), tmp_path / "run")
    reasons = [each.get("failed") for each in run.metrics["per_seed"]]
    assert reasons == [None, "stage 'learn': the env raised ValueError: no battery", None]
    assert [bool(np.isnan(codes).any()) for codes in edl.load(tmp_path / "run").policy.codes] == [False, True, False]


@pytest.mark.slow
def test_seeds_in_chunks_are_joined_to_one_run(tmp_path, monkeypatch):
    monkeypatch.setitem(chunks.LANES, "cpu", 2)
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(store, "move_run", lambda folder, path: signal.raise_signal(signal.SIGINT))
        with pytest.raises(Interrupted):
            many_seeds.execute_seeds(CONFIG, out)
    monkeypatch.setattr(points, "run_lanes", lambda *_, **__: pytest.fail("a finished stage is computed again"))
    run = many_seeds.execute_seeds(CONFIG, out, resume=True)
    assert run.metrics["seconds"]["total"] == pytest.approx(sum(run.metrics["seconds"].values()) / 2, rel=0.1)
    assert [each["seed"] for each in run.metrics["per_seed"]] == [7, 8, 9, 10, 11]
    assert run.metrics["steps"] == {"explore": 4 * 8 * 50, "learn": 2 * 4 * 50}
    assert not (tmp_path / "run-seeds").exists()
    loaded = edl.load(out)
    assert [len(row["loss"]) if "loss" in row else 5 for row in loaded.log] == [5] * len(loaded.log)
    settings = {name: getattr(CONFIG, name) for name in ("explore", "explorer", "discover", "learner", "num_skills")}
    alone = edl.run("square", **settings, seed=9)
    np.testing.assert_allclose(loaded.seed(2).states.samples, alone.states.samples, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(loaded.seed(2).skills.goals, alone.skills.goals, rtol=2e-4, atol=2e-5)
    with pytest.raises(ConfigError, match="already holds a run"):
        many_seeds.execute_seeds(CONFIG, out)
    assert many_seeds.execute_seeds(CONFIG, out, resume=True).metrics == run.metrics

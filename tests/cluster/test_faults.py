"""Workers, nodes and drivers are killed. Afterwards every lane is there once, with the bits of a run without faults."""

import contextlib
import json
import logging
import os
import random
import re
import signal
import time
import warnings

import pytest

from edl.cli import main
from edl.runs import grid as grids
from edl.runs import sweep
from tests.cluster import sweeps

pytestmark = pytest.mark.cluster
POINTS, SEEDS, ITERATIONS, LANES = 6, 2, 300, 4
OFTEN = ("--checkpoint-seconds", "0", "--max-lanes", str(LANES))
PROCESSES = (*OFTEN, "--executor", "processes", "--workers", "2")
WORKER, RAY_WORKER, RAYLET = "multiprocessing.spawn", "ray::run_in_worker", "/raylet/raylet"


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    for process in sweeps.STARTED:
        process.kill()
        process.wait()
    sweeps.STARTED.clear()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("file") / "sweep.json"
    file.write_text(json.dumps(sweeps.content(POINTS, SEEDS, ITERATIONS)))
    return file


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    """The sweep without faults, in one process."""
    out = tmp_path_factory.mktemp("whole") / "out"
    sweeps.run(file, out, *OFTEN)
    assert not sweeps.resumed(out)
    return out


def check_equal(out, whole, what):
    """Every lane is there once, and equal to that of the sweep without faults; so is the summary."""
    lanes, expected = sweeps.lanes_of(out), sweeps.lanes_of(whole)
    assert lanes == expected
    assert len({lane[:2] for lane in lanes}) == len(lanes)
    assert (out / "summary.json").read_bytes() == (whole / "summary.json").read_bytes()
    again = sweeps.resumed(out)
    print(f"\n{what}: {len(lanes)} lanes, each present once and equal; {len(again)} stages continued from a checkpoint")


def test_all_executors_give_the_same_bits(file, whole, tmp_path):
    sweeps.run(file, tmp_path / "processes", *OFTEN, "--executor", "processes", "--workers", "3")
    check_equal(tmp_path / "processes", whole, "processes")
    sweeps.run(file, tmp_path / "ray", *OFTEN, "--executor", "ray", "--workers", "2")
    check_equal(tmp_path / "ray", whole, "ray")


def test_a_finished_sweep_is_left_alone(file, whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    assert main(["sweep", str(file), "--out", str(whole), "--resume", "--executor", "processes"]) == 0
    assert "already finished: nothing was computed" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_the_driver_is_killed_ten_times(file, whole, tmp_path):
    out, kills, chance = tmp_path / "out", 0, random.Random(1)
    while kills < 10:
        driver = sweeps.start(file, out, *PROCESSES, resume=kills > 0)
        if kills % 2:  # half of the time in the middle of a stage, otherwise at any time
            known = sweeps.checkpoints(out)
            sweeps.wait_for(lambda d=driver, k=known: d.poll() is not None or sweeps.checkpoints(out) != k)
        else:
            time.sleep(chance.uniform(2, 15))
        if driver.poll() is not None:
            assert driver.returncode == 0
            break
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        kills += 1
    sweeps.run(file, out, *PROCESSES, resume=True)
    check_equal(out, whole, f"driver killed {kills} times")


def test_random_workers_are_killed(file, whole, tmp_path):
    out = tmp_path / "out"
    driver = sweeps.start(file, out, *PROCESSES)
    killer = sweeps.Killer(driver.pid, WORKER, 4.0, lambda: sweeps.checkpoints(out), most=16)
    killer.start()
    assert driver.wait() == 0
    killer.stop()
    check_equal(out, whole, f"{killer.killed} workers killed")
    assert killer.killed > 0


@pytest.fixture
def cluster():
    """A head without cores, and two nodes of one core."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about fork, deprecated names and open files of Ray's own processes
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": 100_000_000, "include_dashboard": False}
        running = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            running.add_node(num_cpus=1, object_store_memory=100_000_000)
        yield running
        running.shutdown()


@pytest.fixture
def connected(cluster):
    """The cluster, with this process as its driver."""
    import ray

    ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
    yield cluster
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_nodes_are_lost_in_the_middle_of_a_stage(file, whole, tmp_path, cluster):
    out, seen, nodes = tmp_path / "out", {}, list(cluster.worker_nodes)
    driver = sweeps.start(file, out, *OFTEN, "--executor", "ray", "--workers", "2", "--address", cluster.address)
    for node in nodes:
        known = dict(seen)
        seen |= sweeps.wait_for(lambda known=known: (now := sweeps.checkpoints(out)) != known and now)
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    assert driver.wait() == 0
    check_equal(out, whole, f"{len(nodes)} nodes lost")
    continued = {chunk: iteration for chunk, stage, iteration in sweeps.resumed(out) if stage == "learn"}
    assert continued
    # With a checkpoint after every tick, a chunk continues where a checkpoint was seen, or later.
    assert all(iteration >= seen.get(chunk, 1) for chunk, iteration in continued.items())


def test_the_driver_on_ray_is_killed_and_its_workers_at_random(file, whole, tmp_path):
    out, options = tmp_path / "out", (*OFTEN, "--executor", "ray", "--workers", "2")
    driver = sweeps.start(file, out, *options)
    sweeps.wait_for(lambda: sweeps.checkpoints(out))
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver = sweeps.start(file, out, *options, resume=True)
    killer = sweeps.Killer(driver.pid, RAY_WORKER, 4.0, lambda: sweeps.checkpoints(out), most=8)
    killer.start()
    status = driver.wait()
    killer.stop()
    assert status == 0, (tmp_path / "out.log").read_text()[-3000:]
    check_equal(out, whole, f"driver on Ray killed once, {killer.killed} Ray workers killed")
    assert killer.killed > 0


def test_a_sweep_whose_ray_ends_says_so_and_can_be_resumed(tmp_path):
    file, out = tmp_path / "sweep.json", tmp_path / "out"
    file.write_text(json.dumps(sweeps.tiny(sweeps.content(4, 1, 20))))
    options = ("--max-lanes", "1", "--executor", "ray", "--workers", "1")
    driver = sweeps.start(file, out, *options)
    sweeps.wait_for(lambda: list(out.glob("points/*/policy.safetensors")))
    (raylet,) = sweeps.wait_for(lambda: sweeps.children(driver.pid, RAYLET), 30)
    os.kill(raylet, signal.SIGKILL)
    assert driver.wait() == 2
    assert "Ray has ended on this machine" in (tmp_path / "out.log").read_text()
    assert not (out / "summary.json").exists()
    sweeps.run(file, out, *options, resume=True)
    lanes = sweeps.lanes_of(out)
    assert [lane[:2] for lane in lanes] == [(f"{point:03d}", 0) for point in range(4)]
    print(f"\nRay killed once: {len(lanes)} lanes, each present once")


def test_a_thousand_lanes_with_a_fault_every_few_seconds(tmp_path):
    file, out = tmp_path / "sweep.json", tmp_path / "out"
    file.write_text(json.dumps(sweeps.tiny(sweeps.content(100, 10, 4))))
    options = ("--checkpoint-seconds", "0", "--max-lanes", "50", "--executor", "processes", "--workers", "2")
    driver = sweeps.start(file, out, *options)
    # At least three points between two faults, so that a slow machine gets to the end too.
    killer = sweeps.Killer(driver.pid, WORKER, 5.0, lambda: len(list(out.glob("points/*/metrics.json"))) // 3)
    killer.start()
    assert driver.wait() == 0
    killer.stop()
    lanes = sweeps.lanes_of(out)
    assert sorted(lane[:2] for lane in lanes) == [(f"{point:03d}", seed) for point in range(100) for seed in range(10)]
    rows = json.loads((out / "summary.json").read_text())["points"]
    assert all(row.get("failed") is None and row["goal_success"] is not None for row in rows)
    lost = re.findall(r"workers lost (\d+)", (tmp_path / "out.log").read_text())
    print(f"\n{len(lanes)} lanes, none lost; {killer.killed} workers killed, {lost[-1:]} counted by the driver")
    assert killer.killed >= 3


def test_clusters_that_do_not_fit_are_rejected_before_anything_starts(file, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    words = ["sweep", str(file), "--out", str(out), "--executor", "ray"]
    assert main([*words, "--address", "127.0.0.1:1"]) == 2
    assert "no Ray cluster can be reached at '127.0.0.1:1'" in capsys.readouterr().err
    assert main([*words, "--address", "nonsense"]) == 2
    assert "--address must be host:port" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.filterwarnings("ignore")
def test_other_versions_and_hidden_folders_are_rejected(file, tmp_path, connected, monkeypatch):
    from edl.config import ConfigError
    from edl.runs.executors import ray_cluster

    execution = sweep.Execution("ray", 2, connected.address, 0.0)
    own = ray_cluster.versions()
    with monkeypatch.context() as patch:
        patch.setattr(ray_cluster, "versions", lambda: own | {"jax": "0.0.1"})
        with pytest.raises(ConfigError, match=r"has other versions: jax .* \(here 0\.0\.1\)"):
            sweep.sweep(grids.read(file), tmp_path / "out", execution=execution)
    with monkeypatch.context() as patch:
        # The file of the driver is on another machine: no node can read it.
        elsewhere = str(tmp_path / "another machine" / "file")
        patch.setattr(ray_cluster, "token_in", lambda folder: contextlib.nullcontext((elsewhere, "token")))
        with pytest.raises(ConfigError, match="does not see the folder"):
            sweep.sweep(grids.read(file), tmp_path / "out", execution=execution)
    assert not (tmp_path / "out").exists()

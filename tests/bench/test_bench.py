"""The benchmark: contestants take turns, operations are counted correctly, and missing peers are noted."""

import itertools
import json

import jax
import pytest

from edl.bench import bench, ours, robots, timing
from edl.bench.bench import roofline
from edl.bench.timing import Contestant, Row, Timed, race, warm_up
from edl.cli import main
from edl.explore.beyond import BeyondConfig
from edl.interop import peers
from tests.probes.plane import plane


def test_contestants_take_turns():
    order = []

    def pace(name, seconds):
        def go():
            order.append(name)
            return Timed(seconds, seconds / 2)

        return Contestant(name, "steps/s", 10.0, go, flop=40.0)

    slow, quick = race([pace("slow", 0.02), pace("quick", 0.005)], rounds=5)
    assert order == ["slow", "quick"] * 5
    assert (slow.rate, quick.rate) == (pytest.approx(500), pytest.approx(2000))
    assert slow.cpu_rate == pytest.approx(1000)
    assert slow.flops == pytest.approx(4 * slow.rate)
    assert slow.spread == 0


def test_the_first_call_counts_as_compilation():
    seconds = iter([0.1, 0.01, 0.01, 0.01])
    warm = warm_up(Contestant("one", "steps/s", 1.0, lambda: Timed(next(seconds), 0.0)))
    assert race([warm], 3)[0].compile_seconds == pytest.approx(0.09)


def test_work_in_this_process_is_timed(monkeypatch):
    wall, cpu = iter([1.0, 3.0]), iter([5.0, 5.5])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(timing.time, "process_time", lambda: next(cpu))
    assert timing.clock(lambda: None) == Timed(wall=2.0, cpu=0.5)


def row(name, rate, flops, unit="env steps/s"):
    return Row(name, unit, rate, 0.0, rate, 0.0, flops)


def test_the_roofline_describes_the_fastest_training():
    rows = [
        row("matmul", 100e9, 100e9, "FLOP/s"),
        row("one", 1e4, 10e9),
        row("eight", 4e4, 40e9),
        row("peer", 9e9, None),
    ]
    assert roofline(rows) == (
        "eight: 1000 kFLOP per step x 40,000 steps/s = 40.0 GFLOP/s, "
        "40 % of the 100.0 GFLOP/s that a matmul product reaches"
    )
    assert roofline(rows[1:]) is None


def test_operations_of_a_step_by_hand():
    actor, critic = (18, 128, 128, 4), (20, 128, 128, 1)
    products = [2 * sum(i * o for i, o in itertools.pairwise(net)) for net in (actor, critic)]
    first = 2 * 18 * 128 + 2 * 20 * 128
    # One pass of each network, then four epochs of forward and backward passes but no gradient for the inputs.
    assert ours.flop_per_step(ours.recipe(1)) == sum(products) + 4 * (3 * sum(products) - first)


def test_missing_peers_are_noted(monkeypatch):
    def instant(name):
        return Contestant(name, "env steps/s", 1.0, lambda: Timed(1.0, 1.0))

    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ours, "peak", lambda: instant("matmul"))
    monkeypatch.setattr(ours, "training", lambda width, iterations: instant("ours"))
    found = bench.bench(["peers"], quick=True)
    assert [row.name for row in found.rows] == ["matmul", "ours"]
    assert [note.split(":")[0] for note in found.notes] == list(peers.PEERS)
    assert all("pip install '.[bench]'" in note for note in found.notes)


def test_a_failing_contestant_is_left_out_and_noted(monkeypatch):
    def fail():
        raise RuntimeError("too wide\nfor this machine")

    monkeypatch.setattr(ours, "env_steps", fail)
    found = bench.bench(["env"], quick=True)
    assert found.rows == []
    assert found.notes == ["left out: RuntimeError: too wide"]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ours, "EPISODES", 8)
    assert main(["bench", "--only", "env", "--quick", "--out", str(tmp_path / "bench.json")]) == 0
    assert "env alone" in capsys.readouterr().out
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["rows"][0]["rate"] > 0
    assert found["device"] == jax.devices()[0].device_kind
    assert main(["bench", "--only", "everything"]) == 2
    expected = (
        "unknown part of the benchmark 'everything'. Available: env, train, updates, seeds, peers, robots, quality"
    )
    assert expected in capsys.readouterr().err


def test_the_share_of_physics_comes_from_as_many_envs():
    rows = [row("robot alone, 8 envs", 300.0, None), row("robot alone, 4 envs", 200.0, None)]
    rows.append(row("robot training, 4 envs", 50.0, None))
    assert robots.shares(rows) == ["robot training, 4 envs: 25 % physics, 75 % learning"]
    assert robots.shares(rows[:1]) == []


@pytest.mark.slow
def test_the_env_alone_and_training_are_measured_with_any_env():
    config = BeyondConfig(iterations=2, rollouts=8, hidden=(8,), minibatches=2, epochs=1, cells=64, episodes=8)
    alone, trained = robots.env_alone(plane(), 8), robots.training(plane(), config, 2)
    assert (alone.name, alone.amount) == ("robot alone, 8 envs", 8 * robots.STEPS)
    assert (trained.name, trained.amount) == ("robot training, 8 envs", 2 * 8 * 8)
    rows = race([alone, trained], 1)
    assert all(each.rate > 0 and each.memory for each in rows)


def test_robots_are_measured_on_request_and_missing_packages_are_noted(monkeypatch):
    chosen = []
    monkeypatch.setattr(bench, "_makers", lambda names, quick, notes: chosen.append(names) or [])
    monkeypatch.setattr(bench.quality, "TARGETS", {})
    bench.bench()
    bench.bench(["robots"])
    assert chosen == [["env", "train", "updates", "seeds", "peers", "quality"], ["robots"]]
    monkeypatch.setattr(robots.importlib.util, "find_spec", lambda name: None)
    notes = []
    assert robots.makers(True, notes) == []
    assert notes == [robots.NO_MJX]

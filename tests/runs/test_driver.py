"""The driver: its result does not depend on how the work is split into chunks, lanes and devices."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import config
from edl.program import Program, one_shot, run_program
from edl.runs import driver, executables
from edl.runs.driver import Position, Work, advance, finish, lane_mesh, outline, pad_lanes, row_length
from edl.runs.interrupt import Interrupt, Interrupted, catch_interrupts


@config
class WalkConfig:
    """A random walk."""

    iterations: int = 250
    scale: float = 1.0
    stop_at: float = 1e9


def walk(offset, config: WalkConfig) -> Program:
    """Sum of ``iterations`` normal draws. Its state holds a key, so that checkpoints must handle keys."""

    def init(key):
        nothing = jnp.zeros(0)  # compiled programs return arrays without elements on every device
        return {
            "sum": offset + jnp.zeros(3),
            "key": key,
            "count": jnp.int32(0),
            "flag": jnp.bool_(True),
            "none": nothing,
        }

    def step(state, key):
        draw = config.scale * jax.random.normal(jax.random.fold_in(key, 1), (3,))
        new = {**state, "sum": state["sum"] + draw, "count": state["count"] + 1}
        done = new["count"] >= config.stop_at
        return new, {"draw": draw[0], "done": done, "count": new["count"]}

    return Program(init, step, lambda state: state["sum"], config.iterations, env_steps=7)


KEYS = jax.vmap(jax.random.key)(jnp.arange(3))


def work(config=WalkConfig(), offsets=None):
    offsets = jnp.arange(3.0)[: len(KEYS)] if offsets is None else offsets
    return Work(walk, (offsets, config), (True, False))


@pytest.fixture
def compiled(monkeypatch):
    """The requests to compile a program."""
    requests, compile_now = [], executables.compile_now

    def counted(*request):
        requests.append(request)
        return compile_now(*request)

    monkeypatch.setattr(executables, "compile_now", counted)
    return requests


def run(work, keys=KEYS, start=None):
    ticks = list(advance(work, keys, start))
    return finish(work, ticks[-1].position, len(keys)), ticks


def test_equals_one_scan_for_every_seed():
    result, ticks = run(work())
    # The config is an argument here as in the driver. If the compiler knew that the scale is 1, it could round less.
    in_one_scan = jax.jit(lambda key, i, config: run_program(walk(i, config), key))
    for i, key in enumerate(KEYS):
        expected, metrics = in_one_scan(key, float(i), WalkConfig())
        np.testing.assert_array_equal(result[i], expected)
        rows = [tick.row["draw"][i] for tick in ticks if tick.row is not None]
        length = row_length(250)
        means = [np.mean(metrics["draw"][j : j + length]) for j in range(0, 250, length)]
        np.testing.assert_allclose(rows, means, rtol=1e-4, atol=1e-6)
    assert ticks[-1].position.iteration == 250
    assert ticks[-1].done
    assert not any(tick.done for tick in ticks[:-1])


def test_a_seed_alone_equals_that_seed_among_others():
    result, _ = run(work())
    alone, _ = run(work(offsets=jnp.array([1.0])), KEYS[1:2])
    np.testing.assert_array_equal(alone[0], result[1])


def test_the_size_of_chunks_does_not_change_the_result(monkeypatch):
    result, ticks = run(work())
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    slow, slow_ticks = run(work())
    assert len(slow_ticks) == 250 > len(ticks)
    np.testing.assert_array_equal(slow, result)
    rows, slow_rows = ([t.row for t in all_ticks if t.row is not None] for all_ticks in (ticks, slow_ticks))
    assert len(rows) == len(slow_rows) <= driver.ROWS
    for row, slow_row in zip(rows, slow_rows, strict=True):
        np.testing.assert_allclose(row["draw"], slow_row["draw"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stop", [1, 100, 249])
def test_resumes_bit_for_bit_from_any_position(monkeypatch, stop):
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    result, ticks = run(work())
    for tick in advance(work(), KEYS):
        if tick.position.iteration == stop:
            saved = Position(stop, jax.tree.map(jnp.copy, tick.position.state), dict(tick.position.sums))
            break
    resumed, more = run(work(), start=saved)
    np.testing.assert_array_equal(resumed, result)
    assert len(ticks) == stop + len(more)
    for before, after in zip(ticks[stop:], more, strict=True):
        assert (before.row is None) == (after.row is None)
        if before.row is not None:
            np.testing.assert_array_equal(before.row["draw"], after.row["draw"])


def test_ends_early_when_every_seed_is_done_and_only_at_the_end_of_a_row():
    _, ticks = run(work(WalkConfig(stop_at=20.5)))
    assert ticks[-1].done
    assert ticks[-1].position.iteration == 21
    assert ticks[-1].position.iteration % row_length(250) == 0


def test_compiles_once_for_two_settings_of_a_float(compiled):
    built = []

    def counted(offset, config):
        built.append(1)
        return walk(offset, config)

    def of(scale):
        return Work(counted, (jnp.zeros(3), WalkConfig(scale=scale, iterations=10)), (True, False))

    one, _ = run(of(1.0))
    traces = len(built)
    assert len(compiled) == 3  # init, chunk and finish
    two, _ = run(of(2.0))
    assert (len(built), len(compiled)) == (traces, 3)
    np.testing.assert_allclose(two, 2 * one, rtol=1e-5)


def test_programs_that_were_compiled_ahead_are_not_compiled_again(compiled):
    shapes, settings = jax.ShapeDtypeStruct((3,), jnp.float32), WalkConfig(iterations=11)
    driver.compile_programs(Work(walk, (shapes, settings), (True, False)), 3, None)
    assert len(compiled) == 3  # init, chunk and finish
    run(work(settings))
    assert len(compiled) == 3


def test_a_program_that_cannot_be_compiled_raises_every_time():
    def broken(x):
        return Program(lambda key: x, lambda state, key: (state["no"], {}), lambda state: state, 3)

    for _ in range(2):
        with pytest.raises(TypeError):
            run(Work(broken, (jnp.zeros(2),), (False,)))


def test_an_outline_needs_only_shapes():
    offsets = jax.ShapeDtypeStruct((4,), jnp.float32)
    facts = outline(Work(walk, (offsets, WalkConfig()), (True, False)), 4)
    assert (facts.iterations, facts.env_steps) == (250, 7)
    assert facts.artifact.shape == (4, 3)
    assert facts.state["count"].shape == (4,)


def test_a_program_without_iterations():
    made = Work(lambda x: one_shot(lambda key: x + 1), (jnp.arange(2.0),), (False,))
    result, ticks = run(made)
    np.testing.assert_array_equal(result, [[1.0, 2.0]] * 3)
    assert len(ticks) == 1
    assert ticks[0].row == {}


def test_configs_may_differ_by_lane():
    scales = dataclasses.replace(WalkConfig(), scale=jnp.array([1.0, 2.0, 3.0]), stop_at=jnp.full(3, 1e9))
    same = jnp.stack([KEYS[0]] * 3)
    result, _ = run(Work(walk, (0.0, scales), (False, True)), same)
    np.testing.assert_allclose(result[2], 3 * result[0], rtol=1e-5)


def test_one_lane_uses_one_device():
    assert lane_mesh(1) is None
    assert lane_mesh(3, devices=jax.devices()[:1]) is None


def sharded_walks() -> None:
    """Run three lanes on two devices, in one go and resumed, and compare with one device. Called in a subprocess."""
    mesh = lane_mesh(3)
    assert mesh is not None
    assert mesh.size == 2
    np.testing.assert_array_equal(pad_lanes(jnp.arange(5), mesh), [0, 1, 2, 3, 4, 4])
    assert pad_lanes(jax.ShapeDtypeStruct((5, 2), jnp.float32), mesh).shape == (6, 2)
    result, _ = run(work())
    ticks = list(advance(work(), KEYS, mesh=mesh))
    spread = finish(work(), ticks[-1].position, 3, mesh=mesh)
    assert spread.shape == (3, 3)
    assert ticks[-1].metrics["draw"].shape == (3,)
    np.testing.assert_array_equal(spread, result)
    driver.CHUNK_SECONDS = 0.0
    saved = next(
        Position(100, jax.device_get(tick.position.trimmed(3).state), tick.position.sums)
        for tick in advance(work(), KEYS, mesh=mesh)
        if tick.position.iteration == 100
    )
    assert saved.state["count"].shape == (3,)
    more = list(advance(work(), KEYS, saved, mesh=mesh))
    np.testing.assert_array_equal(finish(work(), more[-1].position, 3, mesh=mesh), spread)


def test_lanes_are_sharded_over_devices_and_padding_never_shows():
    code = "from tests.runs.test_driver import sharded_walks; sharded_walks()"
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[2], check=True)


def test_a_cpu_runs_a_lane_per_core_at_a_time_and_others_run_all(monkeypatch):
    assert driver.lanes_at_a_time(5) == len(jax.devices())
    monkeypatch.setattr(jax, "devices", lambda: ["core"] * 8)
    assert driver.lanes_at_a_time(5) == 5
    assert driver.lanes_at_a_time(20) == 8
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert driver.lanes_at_a_time(20) == 20
    monkeypatch.undo()
    monkeypatch.setattr(driver, "hosts_of", lambda inputs: ["a Gymnasium env"])
    assert driver.lanes_at_a_time(20) == 20


def test_blocking_work_is_interrupted_at_once():
    interrupt, release, finished = Interrupt(), threading.Event(), threading.Event()

    def block():
        release.wait(60)
        finished.set()

    threading.Timer(0.2, lambda: setattr(interrupt, "number", signal.SIGINT)).start()
    with pytest.raises(Interrupted):
        interrupt.run_interruptible(block)
    assert not finished.is_set()  # the work is still blocked
    release.set()


def test_interruptible_work_returns_its_result_or_raises_its_error():
    assert Interrupt().run_interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        Interrupt().run_interruptible(lambda: 1 / 0)


def test_catching_interrupts_outside_of_the_main_thread_does_nothing():
    found = []

    def elsewhere():
        with catch_interrupts() as interrupt:
            found.append(interrupt.requested)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.parametrize(("handler", "caught"), [(signal.default_int_handler, True), (signal.SIG_IGN, False)])
def test_ctrl_c_is_caught_unless_it_was_ignored_before_and_the_handler_is_restored(handler, caught):
    ours = signal.signal(signal.SIGINT, handler)
    try:
        with catch_interrupts() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert interrupt.requested == caught
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, ours)

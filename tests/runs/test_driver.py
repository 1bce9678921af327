"""However the work is cut, its result is that of one scan."""

import dataclasses
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import config
from edl.runs import executables as compiled_functions
from edl.runs import driver
from edl.runs.driver import Position, Work, advance, finish, outline, row_length
from edl.runs.interrupt import Interrupt, Stopped, listening
from edl.program import Program, execute, instant


@config
class WalkConfig:
    """A random walk."""

    iterations: int = 250
    scale: float = 1.0
    stop_at: float = 1e9


def walk(offset, config: WalkConfig) -> Program:
    """Sum of ``iterations`` normal draws, kept with a key so that checkpoints must handle keys."""

    def init(key):
        return {"sum": offset + jnp.zeros(3), "key": key, "count": jnp.int32(0), "flag": jnp.bool_(True)}

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


def run(work, keys=KEYS, start=None):
    ticks = list(advance(work, keys, start))
    return finish(work, ticks[-1].position, len(keys)), ticks


def test_equals_one_scan_for_every_seed():
    result, ticks = run(work())
    in_one_scan = jax.jit(lambda key, i: execute(walk(i, WalkConfig()), key))
    for i, key in enumerate(KEYS):
        expected, metrics = in_one_scan(key, float(i))
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


def test_the_cuts_do_not_show(monkeypatch):
    result, ticks = run(work())
    monkeypatch.setattr(driver, "PIECE_SECONDS", 0.0)
    slow, slow_ticks = run(work())
    assert len(slow_ticks) == 250 > len(ticks)
    np.testing.assert_array_equal(slow, result)
    rows, slow_rows = ([t.row for t in all_ticks if t.row is not None] for all_ticks in (ticks, slow_ticks))
    assert len(rows) == len(slow_rows) <= driver.ROWS
    for row, slow_row in zip(rows, slow_rows, strict=True):
        np.testing.assert_allclose(row["draw"], slow_row["draw"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stop", [1, 100, 249])
def test_resumes_bit_for_bit_from_any_position(monkeypatch, stop):
    monkeypatch.setattr(driver, "PIECE_SECONDS", 0.0)
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


def test_ends_early_when_every_seed_is_done_and_only_at_a_row():
    _, ticks = run(work(WalkConfig(stop_at=20.5)))
    assert ticks[-1].done
    assert ticks[-1].position.iteration == 21
    assert ticks[-1].position.iteration % row_length(250) == 0


def test_compiles_once_for_two_settings_of_a_float():
    built = []

    def counted(offset, config):
        built.append(1)
        return walk(offset, config)

    def of(scale):
        return Work(counted, (jnp.zeros(3), WalkConfig(scale=scale, iterations=10)), (True, False))

    one, _ = run(of(1.0))
    traces = len(built)
    two, ticks = run(of(2.0))
    assert len(built) == traces
    np.testing.assert_allclose(two, 2 * one, rtol=1e-5)
    assert ticks[0].compile_seconds < 0.1


def test_what_was_compiled_ahead_is_not_compiled_again(monkeypatch):
    compiled = []
    real = compiled_functions.compile_now

    def counted(function, *request):
        compiled.append(function.__name__)
        return real(function, *request)

    monkeypatch.setattr(compiled_functions, "compile_now", counted)
    shapes = jax.ShapeDtypeStruct((3,), jnp.float32)
    settings = WalkConfig(iterations=11)
    driver.prepare([Work(walk, (shapes, settings), (True, False))], 3)
    run(work(settings))
    assert sorted(compiled) == ["_finish", "_init", "_run_piece"]


def test_a_program_that_cannot_be_compiled_says_so_each_time():
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


def test_a_program_with_nothing_to_repeat():
    made = Work(lambda x: instant(lambda key: x + 1), (jnp.arange(2.0),), (False,))
    result, ticks = run(made)
    np.testing.assert_array_equal(result, [[1.0, 2.0]] * 3)
    assert len(ticks) == 1
    assert ticks[0].row == {}


def test_configs_differ_by_seed_in_a_sweep():
    scales = dataclasses.replace(WalkConfig(), scale=jnp.array([1.0, 2.0, 3.0]), stop_at=jnp.full(3, 1e9))
    same = jnp.stack([KEYS[0]] * 3)
    result, _ = run(Work(walk, (0.0, scales), (False, True)), same)
    np.testing.assert_allclose(result[2], 3 * result[0], rtol=1e-5)


def test_long_work_is_given_up_at_once():
    interrupt = Interrupt()
    release = threading.Event()
    threading.Timer(0.2, lambda: setattr(interrupt, "requested", True)).start()
    began = time.perf_counter()
    with pytest.raises(Stopped):
        interrupt.attentively(lambda: release.wait(20))
    assert time.perf_counter() - began < 5
    release.set()


def test_attention_hands_on_results_and_errors():
    assert Interrupt().attentively(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        Interrupt().attentively(lambda: 1 / 0)


def test_listening_in_another_thread_does_nothing():
    found = []

    def elsewhere():
        with listening() as interrupt:
            found.append(interrupt.requested)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.parametrize(("before", "heard"), [(signal.default_int_handler, True), (signal.SIG_IGN, False)])
def test_ctrl_c_is_heard_unless_it_was_to_be_ignored(before, heard):
    ours = signal.signal(signal.SIGINT, before)
    try:
        with listening() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert interrupt.requested == heard
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, ours)

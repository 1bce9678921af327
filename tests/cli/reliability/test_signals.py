"""SIGTERM and SIGHUP save a checkpoint and say how to resume, like Ctrl-C."""

import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from edl.cli import main
from edl.runs import driver, session, store
from edl.runs.checking import check_run
from edl.runs.interrupt import SIGNALS, Interrupted, catch_interrupts, forward_interrupts
from tests.cli.reliability.signalled_worker import report_signal
from tests.cli.settings import EXPLORE


@pytest.fixture(autouse=True)
def default_handlers():
    """The handlers of a terminal: a suite that was started with nohup or in the background inherits others."""
    handlers = {each: signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL for each in SIGNALS}
    previous = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    yield
    for each, handler in previous.items():
        signal.signal(each, handler)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_saves_a_checkpoint_and_says_how_to_resume(finished, tmp_path, monkeypatch, capsys, number, status):
    out, after_chunk = tmp_path / "run", session.Session._after_chunk
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)

    def send(self, stage, facts, tick, *rest):
        if tick.position.iteration == 2:
            signal.raise_signal(number)
        after_chunk(self, stage, facts, tick, *rest)

    before = [signal.getsignal(each) for each in SIGNALS]
    with monkeypatch.context() as patch:
        patch.setattr(session.Session, "_after_chunk", send)
        assert main(["explore", *EXPLORE, "--out", str(out)]) == status
    assert [signal.getsignal(each) for each in SIGNALS] == before
    printed = capsys.readouterr().err
    assert f"Continue with: edl explore --out {out} --resume" in printed
    assert (f"stopped by {signal.Signals(number).name}" in printed) == (number != signal.SIGINT)
    assert (out / store.CHECKPOINT).is_file()
    assert main(["explore", "--out", str(out), "--resume"]) == 0
    assert (out / "states.safetensors").read_bytes() == (finished / "states.safetensors").read_bytes()


def test_an_ignored_signal_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catch_interrupts() as interrupt:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupt.requested
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_repeated_signal_is_one_request():
    """`timeout` and schedulers signal the process and then its process group."""
    with catch_interrupts() as interrupt:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted) as caught:
            interrupt.check()
    assert caught.value.number == signal.SIGTERM


SECOND_SIGNAL = """
import signal, time
from edl.runs import interrupt

interrupt.REPEATED_SECONDS = 0.0
with interrupt.catch_interrupts():
    signal.raise_signal({0})
    time.sleep(0.01)
    try:
        signal.raise_signal({0})
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
def test_a_second_signal_ends_the_process_at_once(number, status):
    code = SECOND_SIGNAL.format(int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    assert ("interrupted" in done.stdout) == (number == signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_to_worker_processes(tmp_path, number):
    context = multiprocessing.get_context("spawn")
    ready, told = context.Event(), context.Queue()
    worker = context.Process(target=report_signal, args=(ready, told))
    worker.start()
    assert ready.wait(60)
    with pytest.raises(Interrupted) as caught, forward_interrupts():
        signal.raise_signal(number)
    assert caught.value.number == number
    assert told.get(timeout=60) == number
    worker.join(60)
    assert worker.exitcode == 0


@pytest.mark.slow
def test_a_signal_to_the_parent_stops_the_runs_of_a_reproduction(tmp_path):
    """Only the parent is signalled: its workers save their runs and stop, and the same command continues them."""
    out = tmp_path / "results"
    words = ["reproduce", "fig_bottleneck", "--num-seeds", "1", "--jobs", "2", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "edl.cli", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(lambda: list(out.glob("runs/*/checkpoint/state.safetensors")), 400)
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 143, printed
    assert f"stopped by SIGTERM. Continue with: edl reproduce {shlex.join(words[1:])}" in printed
    wait_for(lambda: not group_exists(process.pid), 20)  # no worker is left
    for path in out.glob("runs/*"):
        assert not check_run(path).bad
    assert list(out.glob("runs/*/checkpoint/state.safetensors"))


def group_exists(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it took over {seconds} s"
        time.sleep(0.2)

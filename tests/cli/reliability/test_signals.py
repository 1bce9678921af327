"""SIGTERM and SIGHUP save a checkpoint and say how to resume, like Ctrl-C."""

import signal

import pytest

from edl.cli import main
from edl.runs import driver, session, store
from edl.runs.interrupt import SIGNALS, Interrupted, catch_interrupts
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

    def send(self, stage, facts, tick, spent, part):
        if tick.position.iteration == 2:
            signal.raise_signal(number)
        after_chunk(self, stage, facts, tick, spent, part)

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


def test_a_second_signal_ends_the_process_at_once():
    with catch_interrupts() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(Interrupted) as caught:
            interrupt.check()
    assert caught.value.number == signal.SIGTERM

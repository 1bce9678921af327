"""Ctrl-C, SIGTERM and SIGHUP during a run set a flag that is checked between chunks of work.

So a checkpoint can be written first. Schedulers send SIGTERM before they kill a job, and a terminal that is closed
sends SIGHUP.

XLA holds the main thread while it compiles, and Python runs signal handlers in the main thread only. Work that may
block for long therefore runs in a second thread (`Interrupt.run_interruptible`) while the main thread watches the flag.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

import jax

T = TypeVar("T")
POLL_SECONDS = 0.1
REPEATED_SECONDS = 1.0
"""A signal that arrives again within this time is the same request: `timeout` and schedulers signal a process and then
its process group, and a process that has workers passes its own signal on to them."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Windows has no SIGHUP."""


class Interrupted(KeyboardInterrupt):
    """A signal, such as that of Ctrl-C, stopped the work; everything up to the last checkpoint is saved."""

    def __init__(self, message: str = "", number: int = signal.SIGINT):
        super().__init__(*([message] if message else []))
        self.number = number


def interrupted(message: str, cause: KeyboardInterrupt) -> Interrupted:
    """The same interruption with a message that says how to continue."""
    return Interrupted(message, cause.number if isinstance(cause, Interrupted) else signal.SIGINT)


class Interrupt:
    """Whether a signal has asked the run to stop."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def requested(self) -> bool:
        return self.number is not None

    def check(self) -> None:
        """Raise `Interrupted` if a signal has asked the run to stop."""
        if self.number is not None:
            raise Interrupted(number=self.number)

    def run_interruptible(self, function: Callable[[], T]) -> T:
        """Return ``function()``; raise `Interrupted` as soon as a signal asks the run to stop.

        After an interrupt the function finishes in its thread, and Python waits for it before the process exits:
        XLA crashes if a process exits while it compiles.
        """
        outcome: list[T] = []
        failure: list[BaseException] = []
        device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]  that of this thread

        def call() -> None:
            try:
                with jax.default_device(device):
                    outcome.append(function())
            except BaseException as error:  # raised again in the main thread
                failure.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if thread.is_alive():
                self.check()
        if failure:
            raise failure[0]
        return outcome[0]


@contextlib.contextmanager
def catch_interrupts() -> Iterator[Interrupt]:
    """An `Interrupt` that the first signal sets. A second one of its kind, a moment later, ends the process at once.

    A signal that is ignored (``nohup edl run ... &``) stays ignored, and the previous handlers are restored at the end.
    """
    interrupt = Interrupt()

    def request(number: int) -> None:
        if interrupt.number is None:
            interrupt.number = number

    with _handled(request):
        yield interrupt


@contextlib.contextmanager
def forward_interrupts() -> Iterator[None]:
    """Pass a signal on to the worker processes of this process, which save and stop; raise `Interrupted` here.

    A terminal sends Ctrl-C to all of them, but `kill` and schedulers may signal this process alone.
    """

    def stop(number: int) -> None:
        for worker in multiprocessing.active_children():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                if worker.pid is not None:
                    os.kill(worker.pid, number)
        raise Interrupted(number=number)

    with _handled(stop):
        yield


@contextlib.contextmanager
def _handled(first: Callable[[int], None]) -> Iterator[None]:
    """Call ``first`` with the number of the first signal of each kind. A later one has its default effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    since: dict[int, float] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if number not in since:
            since[number] = time.monotonic()
            first(number)
        elif time.monotonic() - since[number] > REPEATED_SECONDS:
            if number == signal.SIGINT:
                signal.default_int_handler(number, frame)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    previous = {number: signal.getsignal(number) for number in SIGNALS}
    # A handler that was not installed from Python is None: it is left alone.
    caught = {number: handler for number, handler in previous.items() if handler not in (signal.SIG_IGN, None)}
    for number in caught:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)

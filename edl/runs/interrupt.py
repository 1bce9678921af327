"""Ctrl-C during a run: a flag that is checked between chunks of work, so that a checkpoint can be written first.

XLA holds the main thread while it compiles, and Python runs signal handlers in the main thread only. Work that may
block for long therefore runs in a second thread (`Interrupt.run_interruptible`) while the main thread watches the flag.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.1


class Interrupted(KeyboardInterrupt):
    """The user pressed Ctrl-C; everything up to the last checkpoint is saved."""


class Interrupt:
    """Whether the user has pressed Ctrl-C."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        """Raise `Interrupted` if the user has pressed Ctrl-C."""
        if self.requested:
            raise Interrupted

    def run_interruptible(self, function: Callable[[], T]) -> T:
        """Return ``function()``; raise `Interrupted` as soon as the user presses Ctrl-C.

        After an interrupt the function finishes in its thread, and Python waits for it before the process exits:
        XLA crashes if a process exits while it compiles.
        """
        outcome: list[T] = []
        failure: list[BaseException] = []

        def call() -> None:
            try:
                outcome.append(function())
            except BaseException as error:  # raised again in the main thread
                failure.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if self.requested and thread.is_alive():
                raise Interrupted
        if failure:
            raise failure[0]
        return outcome[0]


@contextlib.contextmanager
def catch_interrupts() -> Iterator[Interrupt]:
    """An `Interrupt` that the first Ctrl-C sets. A second Ctrl-C raises KeyboardInterrupt at once.

    An ignored SIGINT (``nohup edl run ... &``) stays ignored, and the previous handler is restored at the end.
    """
    interrupt = Interrupt()
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def request(number: int, frame: object) -> None:
        interrupt.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)

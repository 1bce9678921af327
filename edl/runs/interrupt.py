"""Ctrl-C, answered at once and without tearing anything: a flag that the outside looks at between pieces of work.

XLA holds the main thread while it compiles, and a signal handler waits for the main thread. So whatever may block for
long runs in a thread of its own, `attentively`, while the main one watches the flag.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
GLANCE = 0.1
"""Seconds between two looks at the flag."""


class Stopped(KeyboardInterrupt):
    """The user asked to stop, and what was done so far is safe."""


class Interrupt:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        """Stop here if asked to."""
        if self.requested:
            raise Stopped

    def attentively(self, function: Callable[[], T]) -> T:
        """``function()``, left to itself as soon as the user asks to stop."""
        outcome: list[T] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(function())
            except BaseException as error:  # handed on to the main thread, whatever it is
                failure.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(GLANCE)
            if self.requested and thread.is_alive():
                raise Stopped
        if failure:
            raise failure[0]
        return outcome[0]


@contextlib.contextmanager
def listening() -> Iterator[Interrupt]:
    """An `Interrupt` that the first Ctrl-C sets; the second one is Python's own, for those in a hurry.

    Whoever started this process may have seen to it that Ctrl-C does not concern it (``nohup edl run ... &``).
    """
    interrupt = Interrupt()
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def ask(number: int, frame: object) -> None:
        interrupt.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)

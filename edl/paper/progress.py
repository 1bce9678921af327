"""Progress callbacks of a reproduction."""

import contextlib
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from edl.runs.progress import Progress, SilentProgress


@runtime_checkable
class ReproductionProgress(Protocol):
    """Receives the progress of a reproduction, figure by figure and run by run."""

    def message(self, text: str) -> None:
        """A figure starts, or a run is finished."""
        ...

    def run_progress(self, title: str) -> AbstractContextManager[Progress]:
        """A run starts in this process. Its progress goes to the returned object."""
        ...


class SilentReproduction:
    """Ignores all progress."""

    def message(self, text: str) -> None: ...

    def run_progress(self, title: str) -> AbstractContextManager[Progress]:
        return contextlib.nullcontext(SilentProgress())

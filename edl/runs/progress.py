"""Progress callbacks of a run."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable


class StageProgress(NamedTuple):
    """How far a stage is. ``rate`` is in iterations per second; ``env_steps`` per iteration, over all lanes.

    If the seeds run in parts, ``seeds`` names those of the part, e.g. "2-3", and it started at iteration ``begin``.
    ``metrics`` are means over the seeds that are running.
    """

    iteration: int
    iterations: int
    rate: float
    env_steps: int
    metrics: Mapping[str, float]
    begin: int = 0
    seeds: str = ""


@runtime_checkable
class Progress(Protocol):
    """Receives the progress of a run, stage by stage."""

    def stage_started(self, stage: str, iterations: int) -> None:
        """A stage starts to compile; ``iterations`` is 0 for work that has no iterations, such as drawing."""

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        """A chunk of a stage is done."""

    def stage_finished(self, stage: str) -> None:
        """A stage is done."""


@runtime_checkable
class Watcher(Progress, Protocol):
    """Receives what a stage has made so far as well, e.g. to draw it while the run goes on."""

    def stage_state(self, stage: str, state: Any, artifact: Callable[[], Any]) -> None:
        """The state after a chunk. ``artifact()`` is what the stage would hand over if it ended now.

        Both have a leading axis of lanes and are valid during this call only: the next chunk reuses their memory.
        """


class SilentProgress:
    """Ignores all progress."""

    def stage_started(self, stage: str, iterations: int) -> None: ...

    def stage_advanced(self, stage: str, progress: StageProgress) -> None: ...

    def stage_finished(self, stage: str) -> None: ...

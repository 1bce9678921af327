"""Where tasks run: in this process, in worker processes, or on a Ray cluster.

A `Task` is a call of a module-level function. It leaves its results in files and returns something small. `run_tasks`
starts tasks when those they need have finished, long ones first, and starts a task again if its worker is lost.
"""

import collections
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol, runtime_checkable

from edl.config import ConfigError, check, check_name
from edl.runs.errors import RetryableError
from edl.runs.interrupt import Interrupted

NAMES = ("local", "processes", "ray")
POLL_SECONDS = 0.2
MAX_LOSSES = 10
"""A task whose worker is lost so often without any progress has failed: it probably ends its workers itself."""


class Task(NamedTuple):
    """A call ``function(*args)`` of a module-level function. The tasks in ``needs`` have to finish first.

    ``cost`` is in any unit that all tasks share.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    needs: tuple[str, ...] = ()
    cost: float = 0.0


class Outcome(NamedTuple):
    """What has become of a task: its value, its error, or the loss of the worker that ran it."""

    task: Task
    value: Any = None
    error: BaseException | None = None
    lost: bool = False


class TaskError(RuntimeError):
    """An unexpected error in a worker, with its traceback as text."""


class TaskLostError(RetryableError):
    """The workers of a task were lost too often. It may succeed later, or elsewhere."""


def call(task: Task) -> tuple[Any, BaseException | None]:
    """The value of a task, or its error in a form that can be sent to another process."""
    try:
        return task.function(*task.args), None
    except Interrupted as error:
        return None, error
    except ConfigError as error:
        kind = RetryableError if isinstance(error, RetryableError) else ConfigError
        return None, kind(str(error))
    except (Exception, KeyboardInterrupt) as error:
        return None, TaskError(f"{task.name} failed:\n{''.join(traceback.format_exception(error))}")


@runtime_checkable
class Executor(Protocol):
    """Runs tasks. ``capacity`` is the number of tasks that may be submitted and unfinished at a time.

    ``backend`` is that of JAX in the workers; None if it is the backend of this process.
    """

    workers: int
    capacity: int
    backend: str | None

    def submit(self, task: Task) -> None:
        """Start a task, or keep it until a worker is free."""

    def wait(self, seconds: float) -> list[Outcome]:
        """The tasks that have ended. Returns after so many seconds if there are none."""
        ...

    def close(self) -> None:
        """Stop all workers. Tasks that are running write a checkpoint if they can."""


class Tally:
    """Counts while tasks run: the names of those that are running, and the workers that were lost."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.lost = 0


def run_tasks(
    executor: Executor,
    tasks: Sequence[Task],
    check_interrupt: Callable[[], None] = lambda: None,
    tally: Tally | None = None,
    progress_of: Callable[[Task], Any] = lambda task: None,
) -> Generator[Outcome, None, None]:
    """Run all tasks, and yield each with its value or its error, in the order in which they end.

    A task fails without running if one that it needs has failed. Needs that are not among the tasks are finished.
    ``progress_of`` changes if a task has saved some of its work: losses of its workers are then counted anew.
    """
    tally = tally or Tally()
    waiting = {task.name: task for task in sorted(tasks, key=lambda task: -task.cost)}
    names, losses = set(waiting), collections.Counter[tuple[str, Any]]()
    finished: dict[str, BaseException | None] = {}
    while waiting or tally.running:
        check_interrupt()
        for task in _ready(waiting, names, finished):
            broken = next((finished[name] for name in task.needs if finished.get(name) is not None), None)
            if broken is not None:
                del waiting[task.name]
                finished[task.name] = broken
                yield Outcome(task, error=broken)
            elif len(tally.running) < executor.capacity:
                executor.submit(waiting.pop(task.name))
                tally.running.add(task.name)
        for outcome in executor.wait(POLL_SECONDS) if tally.running else ():
            tally.running.discard(outcome.task.name)
            if outcome.lost:
                tally.lost += 1
                state = (outcome.task.name, progress_of(outcome.task))
                losses[state] += 1
                if losses[state] < MAX_LOSSES:
                    waiting = {outcome.task.name: outcome.task, **waiting}
                    continue
                outcome = outcome._replace(error=_lost_too_often(outcome.task))
            finished[outcome.task.name] = outcome.error
            yield outcome


def _ready(waiting: Mapping[str, Task], names: set[str], finished: Mapping[str, Any]) -> list[Task]:
    """The tasks that need no other, or only finished ones; one that needs itself would never be ready."""
    return [task for task in waiting.values() if all(need in finished or need not in names for need in task.needs)]


def _lost_too_often(task: Task) -> TaskLostError:
    return TaskLostError(
        f"{task.name}: its worker was lost {MAX_LOSSES} times. The machine may have too little memory: start fewer "
        "--workers, or a new sweep with a smaller --max-lanes."
    )


class LocalExecutor:
    """Runs tasks in this process, one at a time. ``here`` are further arguments that cannot leave it."""

    workers = capacity = 1
    backend: str | None = None

    def __init__(self, **here: Any):
        self.here = here
        self.submitted: list[Task] = []

    def submit(self, task: Task) -> None:
        self.submitted.append(task)

    def wait(self, seconds: float) -> list[Outcome]:
        """Run the task that was submitted."""
        task = self.submitted.pop()
        try:
            return [Outcome(task, task.function(*task.args, **self.here))]
        except Exception as error:
            return [Outcome(task, error=error)]

    def close(self) -> None: ...


class ThreadExecutor:
    """Runs tasks in this process, in a thread per device: ``function(*args, device=device, **here)``.

    One program on all devices would be compiled once, but XLA compiles it to other code than for one device: the last
    bits of the results would depend on the number of devices.
    """

    backend: str | None = None

    def __init__(self, devices: Sequence[Any], **here: Any):
        self.workers = self.capacity = len(devices)
        self.free, self.here = list(devices), here
        self.pool = ThreadPoolExecutor(len(devices), "edl-device")
        self.running: dict[Future, tuple[Task, Any]] = {}

    def submit(self, task: Task) -> None:
        device = self.free.pop(0)
        future = self.pool.submit(task.function, *task.args, device=device, **self.here)
        self.running[future] = (task, device)

    def wait(self, seconds: float) -> list[Outcome]:
        outcomes = []
        for future in wait(self.running, seconds, return_when=FIRST_COMPLETED).done:
            task, device = self.running.pop(future)
            self.free.append(device)
            error = future.exception()
            outcomes.append(Outcome(task, error=error) if error is not None else Outcome(task, future.result()))
        return outcomes

    def close(self) -> None:
        """Wait for the tasks that are running: after an interrupt, each writes a checkpoint and ends."""
        self.pool.shutdown(wait=True, cancel_futures=True)


def check_executor(name: str, workers: int, address: str | None) -> None:
    """Reject options that do not belong together."""
    check_name(name, NAMES, "executor")
    check(workers >= 0, f"--workers must be at least 0 (got {workers}). 0 uses what suits this machine.")
    check(
        name != "local" or workers <= 1,
        f"--workers {workers} needs --executor processes or ray: local uses all devices in this process.",
    )
    check(name == "ray" or address is None, f"--address needs --executor ray (got --executor {name}).")


def open_executor(name: str, workers: int = 0, address: str | None = None, folder: str | None = None) -> Executor:
    """The executor of this name; ``workers`` 0 means what suits this machine or cluster.

    A Ray cluster is checked first: that it can be reached, has the same versions, and sees the ``folder``.
    """
    check_executor(name, workers, address)
    if name == "processes":
        from edl.runs.executors.processes import ProcessExecutor, default_jobs

        return ProcessExecutor(workers or default_jobs())
    if name == "ray":
        from edl.runs.executors.ray_cluster import RayExecutor

        return RayExecutor(address, workers, folder)
    return LocalExecutor()

"""Worker processes on this machine: a core or a GPU each.

One run of a few seeds does not fill a large GPU, and most of its time goes into compiling and drawing, which happen on
the CPU: a machine with many cores finishes many runs in the time of the longest one. On a CPU, the matrix products of a
run are so small that a second core gains little: two runs on one core each finish earlier than two runs in sequence on
both cores.

A worker that dies, e.g. because the system is out of memory, takes one task with it, which starts again in a new
worker. If this process dies, its workers end.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax

from edl import runtime
from edl.runs.executors import Outcome, Task, call
from edl.runtime.devices import available_cores

CORES_PER_RUN = 1.3
"""CPU cores that one run keeps busy when it trains on a GPU."""
MAX_WORKERS = 12
"""Default limit on the number of workers. Each takes about 2 GiB of memory."""
STOP_SECONDS = 60.0
"""How long a worker may take to write its checkpoint and end."""
GPUS = "CUDA_VISIBLE_DEVICES"


def default_jobs() -> int:
    """Number of workers for this machine: one per core on a CPU, somewhat fewer if they share a GPU."""
    workers = len(available_cores()) / (1 if jax.default_backend() == "cpu" else CORES_PER_RUN)
    return min(max(int(workers), 1), MAX_WORKERS)


def disable_preallocation() -> None:
    """Let several processes share a GPU: JAX allocates memory on demand, not most of it at once.

    Call it before JAX uses a device. Worker processes inherit the setting.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Place(NamedTuple):
    """Where a worker runs: on a core, or on a GPU as `GPUS` names it. None leaves it to the system."""

    core: int | None
    gpu: str | None


class Worker(NamedTuple):
    """A worker process, and the end of its pipe in this process."""

    process: Any
    pipe: Connection
    place: Place


class ProcessExecutor:
    """Up to ``workers`` processes, which start when they are needed and keep their compiled programs."""

    backend: str | None = None

    def __init__(self, workers: int):
        disable_preallocation()
        self.workers = self.capacity = workers
        self.processes = multiprocessing.get_context("spawn")
        self.free_places = places(workers)
        self.idle: list[Worker] = []
        self.busy: dict[int, tuple[Worker, Task]] = {}

    def submit(self, task: Task) -> None:
        """Send the task to an idle worker, or to a new one."""
        while True:
            worker = self.idle.pop() if self.idle else self._start()
            try:
                worker.pipe.send(task)
            except OSError:  # it has died while it was idle
                self._remove(worker)
                continue
            self.busy[worker.process.pid] = (worker, task)
            return

    def wait(self, seconds: float) -> list[Outcome]:
        workers = {worker.pipe: (worker, task) for worker, task in self.busy.values()}
        ready = multiprocessing.connection.wait(list(workers), seconds)
        return [self._outcome(*workers[pipe]) for pipe in ready if isinstance(pipe, Connection)]

    def _outcome(self, worker: Worker, task: Task) -> Outcome:
        """What a worker has sent; a closed pipe means that it has died."""
        del self.busy[worker.process.pid]
        try:
            value, error = worker.pipe.recv()
        except (EOFError, OSError):
            self._remove(worker)
            return Outcome(task, lost=True)
        self.idle.append(worker)
        return Outcome(task, value, error)

    def _start(self) -> Worker:
        ours, theirs = self.processes.Pipe()
        place = self.free_places.pop(0)
        process = self.processes.Process(target=_work, args=(theirs, place), name="edl-worker")
        process.start()
        theirs.close()
        return Worker(process, ours, place)

    def _remove(self, worker: Worker) -> None:
        worker.pipe.close()
        worker.process.join()
        self.free_places.append(worker.place)

    def close(self) -> None:
        """Stop all workers. An interrupted run writes a checkpoint first."""
        workers = [*self.idle, *(worker for worker, _ in self.busy.values())]
        for worker, _ in self.busy.values():
            worker.process.terminate()
        for worker in workers:
            worker.pipe.close()  # an idle worker ends when its pipe is closed
        for worker in workers:
            worker.process.join(STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self.idle, self.busy = [], {}


def places(workers: int) -> list[Place]:
    """A place for every worker: the cores in turn, or the GPUs in turn if JAX runs on GPUs."""
    if jax.default_backend() == "cpu":
        cores = available_cores()
        return [Place(cores[number % len(cores)], None) for number in range(workers)]
    visible = os.environ.get(GPUS)
    gpus = visible.split(",") if visible else [str(each.id) for each in jax.local_devices()]
    return [Place(None, gpus[number % len(gpus)]) for number in range(workers)]


def _work(pipe: Connection, place: Place) -> None:
    """The main function of a worker: run the tasks that arrive, until the pipe is closed."""
    if place.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {place.core})  # so that JAX creates threads for one core only
    if place.gpu is not None:
        os.environ[GPUS] = place.gpu
    threading.Thread(target=_end_with_parent, daemon=True).start()
    runtime.enable()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            pipe.send(call(pipe.recv()))


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, whatever it is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # workers are children
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)

"""Worker processes that execute several runs at a time.

One run of a few seeds does not fill a large GPU, and most of its time goes into compiling and drawing, which happen on
the CPU: a machine with many cores finishes many runs in the time of the longest one. On a CPU, the matrix products of a
run are so small that a second core gains little: two runs on one core each finish earlier than two runs in sequence on
both cores.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import jax

from edl import runtime
from edl.runtime.devices import available_cores

CORES_PER_RUN = 1.3
"""CPU cores that one run keeps busy when it trains on a GPU."""
MAX_JOBS = 12
"""Default limit on the number of runs at a time. Each takes about 2 GiB of memory."""


def default_jobs() -> int:
    """Number of runs at a time for this machine: one per core on a CPU, somewhat fewer if the runs share a GPU."""
    jobs = len(available_cores()) / (1 if jax.default_backend() == "cpu" else CORES_PER_RUN)
    return min(max(int(jobs), 1), MAX_JOBS)


def disable_preallocation() -> None:
    """Let several processes share a GPU: JAX allocates memory on demand, not most of it at once.

    Call it before JAX uses a device. Worker processes inherit the setting.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class WorkerPool:
    """Up to ``jobs`` worker processes. On a CPU, each is pinned to one core."""

    def __init__(self, jobs: int):
        disable_preallocation()
        processes = multiprocessing.get_context("spawn")
        self.cores = processes.Queue()
        cores = available_cores() if jax.default_backend() == "cpu" else [None]
        for number in range(jobs):
            self.cores.put(cores[number % len(cores)])
        self.pool = ProcessPoolExecutor(jobs, processes, initializer=_start_worker, initargs=(self.cores,))

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        """Call a module-level function in a worker, after those that were submitted before."""
        return self.pool.submit(function, *args)

    def close(self) -> None:
        """Start no more calls, and wait for those that are running. An interrupted run writes a checkpoint."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.cores.close()
        self.cores.join_thread()
        del self.pool, self.cores  # releases their semaphores; Python would warn about them at exit


def _start_worker(cores: Any) -> None:
    """Pin this process to one core, so that JAX creates threads for one core only, and enable the runtime."""
    core = cores.get()
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    runtime.enable()

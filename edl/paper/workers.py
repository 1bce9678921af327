"""Worker processes that execute several runs at a time.

One run of a few seeds does not fill a large GPU, and most of its time goes into compiling and drawing, which happen on
the CPU: a machine with many cores finishes many runs in the time of the longest one. On a CPU, the matrix products of a
run are so small that a second core gains little: two runs on one core each finish earlier than two runs in sequence on
both cores.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax

from edl import runtime
from edl.paper.recipes import Recipe
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


class Workers:
    """Executes ``recipes`` in worker processes, in order. A recipe with a source starts when its source has finished.

    ``execute(path, recipe)`` runs in a worker; ``on_finished(recipe, seconds)`` is called in this process.
    """

    def __init__(
        self,
        jobs: int,
        execute: Callable[[Path, Recipe], None],
        path: Path,
        recipes: Sequence[Recipe],
        on_finished: Callable[[Recipe, float], None],
    ):
        disable_preallocation()
        processes = multiprocessing.get_context("spawn")
        self.cores = processes.Queue()
        cores = available_cores() if jax.default_backend() == "cpu" else [None]
        for number in range(jobs):
            self.cores.put(cores[number % len(cores)])
        self.pool = ProcessPoolExecutor(jobs, processes, initializer=_start_worker, initargs=(self.cores,))
        self.execute, self.path, self.on_finished = execute, path, on_finished
        self.results: dict[str, Future[float]] = {}
        submitted = {each.identity for each in recipes}
        # Recipes with a source come last, so that the result of the source exists.
        for recipe in sorted(recipes, key=lambda recipe: recipe.source is not None):
            if recipe.source is None or recipe.source.identity not in submitted:
                self.results[recipe.identity] = self._submit(recipe)
            else:
                self.results[recipe.identity] = self._submit_after(self.results[recipe.source.identity], recipe)

    def wait(self, recipe: Recipe) -> None:
        """Wait until a run has finished. An exception of the worker is raised here."""
        self.results[recipe.identity].result()

    def close(self) -> None:
        """Start no more runs, and wait for those that are running. An interrupted run writes a checkpoint."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.cores.close()
        self.cores.join_thread()
        del self.pool, self.cores  # releases their semaphores; Python would warn about them at exit

    def _submit(self, recipe: Recipe) -> Future[float]:
        future = self.pool.submit(_execute_timed, self.execute, self.path, recipe)
        future.add_done_callback(lambda done: self._report(recipe, done))
        return future

    def _report(self, recipe: Recipe, done: Future[float]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.on_finished(recipe, done.result())

    def _submit_after(self, source: Future[float], recipe: Recipe) -> Future[float]:
        """The future result of a run that starts when its source has finished."""
        result: Future[float] = Future()

        def copy_to_result(done: Future[float]) -> None:
            if done.cancelled():
                result.cancel()
            elif (error := done.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(done.result())

        def start(done: Future[float]) -> None:
            if done.cancelled() or done.exception() is not None:
                copy_to_result(done)
            else:
                self._submit(recipe).add_done_callback(copy_to_result)

        source.add_done_callback(start)
        return result


def _start_worker(cores: Any) -> None:
    """Pin this process to one core, so that JAX creates threads for one core only, and enable the runtime."""
    core = cores.get()
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    runtime.enable()


def _execute_timed(execute: Callable[[Path, Recipe], None], path: Path, recipe: Recipe) -> float:
    began = time.perf_counter()
    execute(path, recipe)
    return time.perf_counter() - began

"""Runs in processes of their own, several at a time.

One run of a few seeds does not fill a large device, and most of its time goes into compiling and drawing, which is work
for a processor: a machine with many cores makes many runs in the time of the longest. Where the processor does all the
work, products as small as these gain little from a second core: two runs on a core each get further than one on both.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax

from edl.runtime import compile_cache, devices
from edl.paper.recipes import Recipe

CORES = 1.3
"""So many are kept busy by one run."""
MOST = 12
"""Runs at a time at most, unless told otherwise: each takes about 2 GiB of memory."""


def suitable() -> int:
    """How many runs at a time suit this machine: one on every core, or somewhat fewer if they share a device."""
    jobs = len(devices.available_cores()) / (1 if jax.default_backend() == "cpu" else CORES)
    return min(max(int(jobs), 1), MOST)


def share_device() -> None:
    """Take memory of a device as it is needed, not most of it at once. To be called before a device is used."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Workers:
    """Makes runs in the order of ``recipes``; one that takes over the skills of another begins when that is done.

    ``make(path, recipe)`` makes one; ``tell(recipe, seconds)`` hears when it is done.
    """

    def __init__(
        self,
        jobs: int,
        make: Callable[[Path, Recipe], None],
        path: Path,
        recipes: Sequence[Recipe],
        tell: Callable[[Recipe, float], None],
    ):
        share_device()
        processes = multiprocessing.get_context("spawn")
        self.cores = processes.Queue()
        own = devices.available_cores() if jax.default_backend() == "cpu" else [None]
        for number in range(jobs):
            self.cores.put(own[number % len(own)])
        self.pool = ProcessPoolExecutor(jobs, processes, initializer=_begin, initargs=(self.cores,))
        self.make, self.path, self.tell = make, path, tell
        self.done: dict[str, Future[float]] = {}
        wanted = {each.key for each in recipes}
        # A run that has to wait for its source must find the source submitted.
        for recipe in sorted(recipes, key=lambda recipe: recipe.source is not None):
            if recipe.source is None or recipe.source.key not in wanted:
                self.done[recipe.key] = self._submit(recipe)
            else:
                self.done[recipe.key] = self._after(self.done[recipe.source.key], recipe)

    def wait(self, recipe: Recipe) -> None:
        """Until a run is made; whatever went wrong there goes wrong here."""
        self.done[recipe.key].result()

    def close(self) -> None:
        """Begin nothing new, and wait for what was begun: a run that is interrupted saves where it stood."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.cores.close()
        self.cores.join_thread()
        del self.pool, self.cores  # with them go their semaphores, of which Python would otherwise warn at its end

    def _submit(self, recipe: Recipe) -> Future[float]:
        future = self.pool.submit(_timed, self.make, self.path, recipe)
        future.add_done_callback(lambda done: self._told(recipe, done))
        return future

    def _told(self, recipe: Recipe, done: Future[float]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.tell(recipe, done.result())

    def _after(self, source: Future[float], recipe: Recipe) -> Future[float]:
        """What will be the result of a run that cannot begin yet."""
        promise: Future[float] = Future()

        def hand_on(done: Future[float]) -> None:
            if done.cancelled():
                promise.cancel()
            elif (error := done.exception()) is not None:
                promise.set_exception(error)
            else:
                promise.set_result(done.result())

        def begin(done: Future[float]) -> None:
            if done.cancelled() or done.exception() is not None:
                hand_on(done)
            else:
                self._submit(recipe).add_done_callback(hand_on)

        source.add_done_callback(begin)
        return promise


def _begin(unused: Any) -> None:
    """A process begins: on a core of its own, if it is given one, so that JAX does not make threads for all of them."""
    core = unused.get()
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    compile_cache.enable()


def _timed(make: Callable[[Path, Recipe], None], path: Path, recipe: Recipe) -> float:
    began = time.perf_counter()
    make(path, recipe)
    return time.perf_counter() - began

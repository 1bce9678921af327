"""Worker processes that execute several runs of a reproduction at a time, each after the run that it imports from."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from edl.paper.recipes import Recipe
from edl.runs.workers import WorkerPool


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
        self.pool = WorkerPool(jobs)
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
        self.pool.close()

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


def _execute_timed(execute: Callable[[Path, Recipe], None], path: Path, recipe: Recipe) -> float:
    began = time.perf_counter()
    execute(path, recipe)
    return time.perf_counter() - began

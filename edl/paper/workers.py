"""Runs of a reproduction in the workers of an executor, each after the run that it imports from."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from edl.paper.recipes import Recipe
from edl.runs.executors import Executor, Outcome, Task, run_tasks


class Workers:
    """Executes ``recipes`` in order. A recipe with a source starts when its source has finished.

    ``execute(path, recipe)`` runs in a worker; ``on_finished(recipe, seconds)`` is called in this process.
    """

    def __init__(
        self,
        executor: Executor,
        execute: Callable[[Path, Recipe], None],
        path: Path,
        recipes: Sequence[Recipe],
        on_finished: Callable[[Recipe, float], None],
    ):
        self.executor, self.on_finished = executor, on_finished
        self.recipes = {each.identity: each for each in recipes}
        self.ended: dict[str, Outcome] = {}
        tasks = [
            Task(name, _execute_timed, (execute, path, each), () if each.source is None else (each.source.identity,))
            for name, each in self.recipes.items()
        ]
        self.outcomes = run_tasks(executor, tasks)

    def wait(self, recipe: Recipe) -> None:
        """Wait until a run has finished. An exception of the worker is raised here."""
        while recipe.identity not in self.ended:
            outcome = next(self.outcomes, None)
            if outcome is None:
                raise CancelledError
            self.ended[outcome.task.name] = outcome
            if outcome.error is None:
                self.on_finished(self.recipes[outcome.task.name], outcome.value)
        error = self.ended[recipe.identity].error
        if error is not None:
            raise error

    def close(self) -> None:
        """Start no more runs, and stop those that are running. An interrupted run writes a checkpoint."""
        self.outcomes.close()
        self.executor.close()


def _execute_timed(execute: Callable[[Path, Recipe], None], path: Path, recipe: Recipe) -> float:
    began = time.perf_counter()
    execute(path, recipe)
    return time.perf_counter() - began

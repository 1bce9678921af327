"""Runs of a reproduction in the workers of an executor, each after the run that it imports from.

A group of runs is trained as one program, by one worker.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from edl.paper.recipes import Recipe
from edl.runs.executors import Executor, Outcome, Task, run_tasks


class Workers:
    """Executes groups of recipes in order. A group starts when the sources of its recipes have finished.

    ``execute(path, group)`` runs in a worker; ``on_finished(group, seconds)`` is called in this process.
    """

    def __init__(
        self,
        executor: Executor,
        execute: Callable[[Path, Sequence[Recipe]], None],
        path: Path,
        groups: Sequence[Sequence[Recipe]],
        on_finished: Callable[[Sequence[Recipe], float], None],
    ):
        self.executor, self.on_finished = executor, on_finished
        self.groups = {group[0].identity: group for group in groups}
        self.name_of = {recipe.identity: name for name, group in self.groups.items() for recipe in group}
        self.ended: dict[str, Outcome] = {}
        tasks = [
            Task(name, _execute_timed, (execute, path, group), self._needs(group))
            for name, group in self.groups.items()
        ]
        self.outcomes = run_tasks(executor, tasks)

    def _needs(self, group: Sequence[Recipe]) -> tuple[str, ...]:
        """The groups of the sources. A source that has finished before is in no group."""
        sources = [recipe.source.identity for recipe in group if recipe.source is not None]
        return tuple(dict.fromkeys(self.name_of[each] for each in sources if each in self.name_of))

    def wait(self, recipe: Recipe) -> None:
        """Wait until a run has finished. An exception of the worker is raised here."""
        name = self.name_of[recipe.identity]
        while name not in self.ended:
            outcome = next(self.outcomes, None)
            if outcome is None:
                raise CancelledError
            self.ended[outcome.task.name] = outcome
            if outcome.error is None:
                self.on_finished(self.groups[outcome.task.name], outcome.value)
        error = self.ended[name].error
        if error is not None:
            raise error

    def close(self) -> None:
        """Start no more runs, and stop those that are running. An interrupted run writes a checkpoint."""
        self.outcomes.close()
        self.executor.close()


def _execute_timed(execute: Callable[[Path, Sequence[Recipe]], None], path: Path, group: Sequence[Recipe]) -> float:
    began = time.perf_counter()
    execute(path, group)
    return time.perf_counter() - began

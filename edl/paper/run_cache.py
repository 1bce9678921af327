"""The runs of a reproduction. Each is executed once: its identity names its folder. Interrupted runs are resumed.

On an accelerator, runs that differ only in floats and in their maze are lanes of one program (`edl.runs.points`): 38
runs are 15 to 19 programs. A CPU trains one lane per core at a time, so there every run is a task of its own.
"""

import dataclasses
import shutil
import time
from collections.abc import Hashable, Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillModel, States
from edl.config import ConfigError
from edl.evaluate.metrics import definitions_note
from edl.paper.measurements import lower_left_cell
from edl.paper.progress import ReproductionProgress, SilentReproduction
from edl.paper.recipes import Recipe
from edl.paper.workers import Workers
from edl.runs import store
from edl.runs.chunk_work import evaluate_points
from edl.runs.evaluation import reevaluate
from edl.runs.executors import Executor
from edl.runs.interrupt import catch_interrupts
from edl.runs.points import LaneContext, group_contexts, open_point, program_key, run_group
from edl.runs.progress import Progress
from edl.runs.resolve import make_context
from edl.runs.result import Run, load
from edl.runs.run import execute_run, import_stages
from edl.runs.session import read_progress


class RunCache:
    """The runs in the folder ``path``. `get` executes those that are missing, in workers if it has an executor."""

    def __init__(
        self, path: Path, recipes: Sequence[Recipe], progress: ReproductionProgress, executor: Executor | None = None
    ):
        self.path, self.progress = path, progress
        self.recipes = list({each.identity: each for recipe in recipes for each in _with_sources(recipe)}.values())
        self.numbers = {each.identity: number for number, each in enumerate(self.recipes, 1)}
        self.runs: dict[str, Run] = {}
        groups = groups_of([each for each in self.recipes if not self.is_finished(each)])
        self.group_of = {each.identity: group for group in groups for each in group}
        self.workers = None
        if executor is not None:
            self.workers = Workers(executor, execute_in_worker, path.absolute(), groups, self._report_finished)

    def close(self) -> None:
        """Stop the workers after their current runs."""
        if self.workers is not None:
            self.workers.close()

    def is_finished(self, recipe: Recipe) -> bool:
        folder = self._folder(recipe)
        return folder.has(store.CONFIG) and "evaluate" in read_progress(folder)

    def get(self, recipe: Recipe) -> Run:
        """A run from memory, from its folder, or executed now."""
        if recipe.identity not in self.runs:
            if self.workers is not None and not self.is_finished(recipe):
                self.workers.wait(recipe)
            run = load_current(self._folder(recipe)) if self.is_finished(recipe) else self._execute(recipe)
            self.runs[recipe.identity] = without_experience(run)
        return self.runs[recipe.identity]

    def _folder(self, recipe: Recipe) -> store.Folder:
        return store.Folder(self.path / recipe.folder)

    def _execute(self, recipe: Recipe) -> Run:
        source = None if recipe.source is None else self.get(recipe.source)
        group = self.group_of.get(recipe.identity, [recipe])
        folder, began = self._folder(recipe), time.perf_counter()
        if source is not None:
            import_skills(source, recipe, folder)
        with self.progress.run_progress(f"{self._numbers(group)}: {titles(group)}") as progress:
            if len(group) > 1:
                execute_group(self.path, group, progress)
                run = load(folder.path)
            else:
                run = execute_or_resume(recipe, folder, progress)
        self._report_finished(group, time.perf_counter() - began)
        return run

    def _report_finished(self, group: Sequence[Recipe], seconds: float) -> None:
        self.progress.message(f"{self._numbers(group)} took {seconds:.0f} s: {titles(group)}")

    def _numbers(self, group: Sequence[Recipe]) -> str:
        numbers = ", ".join(str(self.numbers[recipe.identity]) for recipe in group)
        return f"run{'s' * (len(group) > 1)} {numbers} of {len(self.numbers)}"


def titles(group: Sequence[Recipe]) -> str:
    return "; ".join(dict.fromkeys(recipe.title for recipe in group))


def groups_of(recipes: Sequence[Recipe]) -> list[list[Recipe]]:
    """Recipes that are trained as one program. One that imports skills is alone, because it waits for another run."""
    groups: dict[Hashable, list[Recipe]] = {}
    for each in recipes:
        alone = jax.default_backend() == "cpu" or each.source is not None
        groups.setdefault(each.identity if alone else program_key(each.config), []).append(each)
    return list(groups.values())


def load_current(folder: store.Folder) -> Run:
    """A finished run. If its metrics have other definitions than those of this version, they are computed again."""
    run = load(folder.path)
    if definitions_note(run.metrics or {}) is None:
        return run
    run, _ = reevaluate(folder.path)
    folder.write_json(store.METRICS, run.metrics)
    return run


def execute_or_resume(recipe: Recipe, folder: store.Folder, progress: Progress) -> Run:
    return execute_run(recipe.config, out=folder.path, resume=folder.has(store.CONFIG), progress=progress)


def execute_group(path: Path, group: Sequence[Recipe], progress: Progress) -> None:
    """Execute runs as lanes of one program. If one fails, the others are finished all the same."""
    points = [open_point(each.folder, each.config, path / each.folder) for each in group]
    contexts = group_contexts([each.config for each in group])
    with catch_interrupts() as interrupt:
        context = LaneContext(jax.devices(), interrupt, progress)
        run_group(points, contexts, context)
        evaluate_points(points, contexts, context, "")
    failures = [each.failures[0] for each in points if each.failures]
    if failures:
        raise ConfigError("; ".join(failures))


def execute_in_worker(path: Path, group: Sequence[Recipe]) -> None:
    """Execute a group of runs, whose sources have finished, in a worker process."""
    RunCache(path, group, SilentReproduction()).get(group[0])


def import_skills(source: Run, recipe: Recipe, folder: store.Folder) -> None:
    """Start a run in a maze with the same cells but another start, with the states and skills of ``source``.

    Positions are relative to the start, so the same place has other coordinates there: states and skills are shifted.
    """
    if folder.has(store.PROGRESS):  # `import_stages` writes it last
        return
    shutil.rmtree(folder.path, ignore_errors=True)  # left by an import that was interrupted
    layout = make_context(recipe.config).layout
    assert layout is not None  # every env of the paper is a maze
    assert source.layout is not None
    assert source.states is not None  # the source has finished both stages
    assert source.skills is not None
    offset = jnp.asarray(lower_left_cell(layout) - lower_left_cell(source.layout), jnp.float32)
    states = States(source.states.samples + offset)
    import_stages(recipe.config, folder.path, {"explore": states, "discover": shift_skills(source.skills, offset)})


def shift_skills(skills: SkillModel, offset: Float[Array, " s"]) -> SkillModel:
    """The same skills with ``offset`` added to every position. Codes and networks use normalised states."""
    shifted = (skills.goals + offset, skills.decoded + offset, skills.normaliser.mean + offset)
    return eqx.tree_at(lambda s: (s.goals, s.decoded, s.normaliser.mean), skills, shifted)


def without_experience(run: Run) -> Run:
    """A run without its experience and log, which are large and which no figure uses."""
    states = None if run.states is None else States(run.states.samples)
    return dataclasses.replace(run, states=states, log=[])


def _with_sources(recipe: Recipe) -> list[Recipe]:
    return [recipe] if recipe.source is None else [*_with_sources(recipe.source), recipe]

"""The runs of a reproduction, each made once: looked up by the hash of its config, resumed if it was stopped."""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from edl import evaluate
from edl.artifacts import SkillModel, States
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.runs import driver, run, stages, store
from edl.paper.recipes import Recipe
from edl.paper.workers import Workers
from edl.runs.result import Run, load
from edl.runs.session import FILES, Quiet, Report, progress_of

CORES = 4
"""So many are kept busy by compiling one run."""


@runtime_checkable
class Watch(Protocol):
    """Someone who wants to know how a reproduction goes."""

    def say(self, text: str) -> None:
        """Tell a piece of news."""
        ...

    def working(self, title: str) -> AbstractContextManager[Report]:
        """A run begins; what is given back hears of its stages."""
        ...


class Unwatched:
    """Nobody does."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def working(self, title: str) -> AbstractContextManager[Report]:
        """Say nothing."""
        return contextlib.nullcontext(Quiet())


class Library:
    """Runs in the folder ``path``. Those to come are known, so that the next is compiled while one is running.

    With several ``jobs``, so many are made at a time, each in a process of its own.
    """

    def __init__(self, path: Path, recipes: Sequence[Recipe], watch: Watch, jobs: int = 1):
        self.path, self.watch = path, watch
        self.recipes = list({each.key: each for recipe in recipes for each in _with_source(recipe)}.values())
        self.numbers = {each.key: number for number, each in enumerate(self.recipes, 1)}
        self.runs: dict[str, Run] = {}
        self.prepared: set[str] = set()
        missing = [each for each in self.recipes if not self.finished(each)]
        self.workers = Workers(jobs, make_alone, path, missing, self._tell) if jobs > 1 and missing else None

    def close(self) -> None:
        """Have no more runs made."""
        if self.workers is not None:
            self.workers.close()

    def place(self, recipe: Recipe) -> Path:
        """The folder of a run."""
        return self.path / recipe.folder

    def finished(self, recipe: Recipe) -> bool:
        """Whether a run has gone to its end."""
        place = self.place(recipe)
        return (place / store.CONFIG).is_file() and "evaluate" in progress_of(store.Folder(place))

    def fetch(self, recipe: Recipe) -> Run:
        """A run: from memory, from its folder, or made now."""
        if recipe.key not in self.runs:
            if self.workers is not None and not self.finished(recipe):
                self.workers.wait(recipe)
            self.runs[recipe.key] = _light(load(self.place(recipe)) if self.finished(recipe) else self._make(recipe))
        return self.runs[recipe.key]

    def _make(self, recipe: Recipe) -> Run:
        source = None if recipe.source is None else self.fetch(recipe.source)
        place, number = self.place(recipe), self.numbers[recipe.key]
        began = time.perf_counter()
        self._prepare_after(number)
        with self.watch.working(f"run {number} of {len(self.numbers)}: {recipe.title}") as report:
            begun = (place / store.CONFIG).is_file()
            if source is None:
                made = run.execute(recipe.config, out=place, resume=begun, report=report)
            else:
                made = transplant(source, recipe, place, report)
        self._tell(recipe, time.perf_counter() - began)
        return made

    def _tell(self, recipe: Recipe, seconds: float) -> None:
        number = f"run {self.numbers[recipe.key]} of {len(self.numbers)}"
        self.watch.say(f"{number} took {seconds:.0f} s: {recipe.title}")

    def _prepare_after(self, number: int) -> None:
        """Begin to compile the next runs that are not done yet, while this one works: as many as cores allow."""
        ahead = max(1, (os.cpu_count() or 1) // CORES)
        coming = [each for each in self.recipes[number:] if each.source is None and not self.finished(each)][:ahead]
        for recipe in coming:
            if recipe.key not in self.prepared:
                self.prepared.add(recipe.key)
                threading.Thread(target=_prepare, args=(recipe,), daemon=True).start()


def make_alone(path: Path, recipe: Recipe) -> None:
    """Make one run, whose source is there, in a process that does nothing else."""
    Library(path, [recipe], Unwatched()).fetch(recipe)


def _prepare(recipe: Recipe) -> None:
    with contextlib.suppress(Exception):  # the run itself will meet the same error, and can say so
        works = stages.rehearse(recipe.config, stages.make_world(recipe.config))
        driver.prepare(works, recipe.config.num_seeds)


def transplant(source: Run, recipe: Recipe, place: Path, report: Report) -> Run:
    """Learn the skills of ``source`` in another world: one with the same cells, but another start.

    Positions are counted from the start, so the same place has other coordinates there: states and skills move along.
    """
    world = stages.make_world(recipe.config)
    folder = store.open_run(place) if (place / store.CONFIG).is_file() else run.begin(recipe.config, place)
    if "discover" not in progress_of(folder):
        assert source.layout is not None  # the worlds of the paper
        assert world.layout is not None
        assert source.states is not None  # the source has been through both stages
        assert source.skills is not None
        by = jnp.asarray(corner(world.layout) - corner(source.layout), jnp.float32)
        folder.save(FILES["explore"], States(source.states.samples + by))
        folder.save(FILES["discover"], moved(source.skills, by))
        nothing = {"seconds": 0.0, "compile_seconds": 0.0, "iterations": 0, "env_steps": 0}
        folder.write_json(store.PROGRESS, {"explore": nothing, "discover": nothing})
    return run.work(recipe.config, world, folder, "learn", report)


def moved(skills: SkillModel, by: Float[jax.Array, " s"]) -> SkillModel:
    """The same skills where every position has ``by`` added to it; codes and networks see normalised states."""
    places = (skills.goals + by, skills.decoded + by, skills.normaliser.mean + by)
    return eqx.tree_at(lambda s: (s.goals, s.decoded, s.normaliser.mean), skills, places)


def corner(layout: Layout) -> Float[np.ndarray, " 2"]:
    """The place of the lower left cell: coordinates less this are the same from whatever start."""
    return np.asarray(layout.cells).min(axis=0)


def play(made: Run, num: int = 20) -> Episode:
    """The rollouts that the run's metrics come from (or more of them), on the host, with a leading axis of seeds."""
    assert made.policy is not None  # every run here goes to its end
    goals = None if made.skills is None else made.skills.goals
    together = jax.vmap(
        lambda key, policy, goals: evaluate.rollouts(key, made.env, policy, policy.codes, goals, num=num),
        in_axes=(0, 0, None if goals is None else 0),
    )
    return jax.device_get(together(stages.keys(made.config, "evaluate"), made.policy, goals))


def per_seed(made: Run, name: str) -> list[float]:
    """A metric of a run, one number per seed."""
    assert made.metrics is not None  # every run here was evaluated
    return [seed[name] for seed in made.metrics["per_seed"]]


def _light(made: Run) -> Run:
    """Without the experience, which is large, and which no figure looks at."""
    states = None if made.states is None else States(made.states.samples)
    return dataclasses.replace(made, states=states, log=[])


def _with_source(recipe: Recipe) -> list[Recipe]:
    return [recipe] if recipe.source is None else [*_with_source(recipe.source), recipe]


def numbers_of(runs: dict[str, Run]) -> dict[str, Any]:
    """Per seed and in aggregate, by label: what the JSON of a figure says about its runs."""
    kept = ("per_seed", "aggregate", "random", "steps", "seconds")
    return {label: {name: (made.metrics or {}).get(name) for name in kept} for label, made in runs.items()}

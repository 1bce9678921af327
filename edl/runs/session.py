"""One sitting at a run: drive its stages in turn, log, checkpoint, stop when asked, and resume where it stood."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError
from edl.runs import stages, store, tensors
from edl.runs.driver import Outline, Position, Tick, Work, advance, finish, outline
from edl.runs.interrupt import Interrupt, Stopped
from edl.runs.config import RunConfig
from edl.runs.store import Folder

CHECKPOINT_SECONDS = 20.0
SAVING_COST = 20.0
"""Between two checkpoints lie at least `CHECKPOINT_SECONDS`, and `SAVING_COST` times what the last one took."""
LOG_SECONDS = 2.0

FILES = {
    "explore": "states.safetensors",
    "discover": "skills.safetensors",
    "scout": "checkpoint/scout.safetensors",
    "measure": "checkpoint/distance.safetensors",
    "place": "skills.safetensors",
    "learn": "policy.safetensors",
}
"""Where the result of each stage goes."""
DISCOVERED = "checkpoint/discovered.safetensors"
"""Where the skills of `discover` are kept once `place` has taken their place, for whoever learns them another way."""
HANDED_OVER = ("explore", "discover", "place", "learn")
"""Stages whose result is finite; a distance need not be, where there is no way."""


class Progressed(NamedTuple):
    """How far a stage is: ``pace`` in iterations a second, ``env_steps`` an iteration, of all seeds together."""

    iteration: int
    iterations: int
    pace: float
    env_steps: int
    metrics: Mapping[str, float]


@runtime_checkable
class Report(Protocol):
    """Someone who wants to know how it goes."""

    def begin(self, stage: str, iterations: int) -> None:
        """A stage begins, with the compilation of its program."""

    def tick(self, stage: str, tick: Progressed) -> None:
        """A piece of a stage is done."""

    def end(self, stage: str) -> None:
        """A stage is over."""


class Quiet:
    """Nobody wants to know."""

    def begin(self, stage: str, iterations: int) -> None:
        """Say nothing."""

    def tick(self, stage: str, tick: Progressed) -> None:
        """Say nothing."""

    def end(self, stage: str) -> None:
        """Say nothing."""


class Session:
    """A run under way. Without a folder, nothing is kept but the result.

    ``meanwhile`` is called once, as soon as the first stage is compiled and runs.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Folder | None,
        interrupt: Interrupt,
        report: Report,
        meanwhile: Callable[[], None] = lambda: None,
    ):
        self.config, self.folder, self.interrupt, self.report = config, folder, interrupt, report
        self.meanwhile: Callable[[], None] | None = meanwhile
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = [] if folder is None else folder.read_log()
        self.finished = progress_of(folder)
        self.earlier = sum(each["seconds"] + each["compile_seconds"] for each in self.finished.values())
        self.logged = self.saved = time.perf_counter()
        self.saving_took = 0.0

    def stage(
        self,
        name: str,
        work: Work,
        check: Callable[[PyTree], None] = lambda artifact: None,
        watch: Callable[[PyTree], Mapping[str, float]] = lambda state: {},
    ) -> PyTree:
        """The result of a stage: loaded if it is done, resumed if it was begun, and run otherwise.

        ``check`` may refuse the result; ``watch`` tells more of the state than its metrics do, while the stage runs.
        """
        facts = outline(work, self.config.num_seeds)
        if name in self.finished and self.folder is not None:
            return self.folder.load(file_of(name, self.folder), facts.artifact, finite=name in HANDED_OVER)
        self.report.begin(name, facts.iterations)
        start, before = self._standing(name, facts)
        began, position, compile_seconds = time.perf_counter(), start, 0.0
        for tick in advance(work, stages.keys(self.config, name), start, self.interrupt.attentively):
            position, compile_seconds = tick.position, tick.compile_seconds
            if self.meanwhile is not None:
                self.meanwhile()
                self.meanwhile = None
            spent = time.perf_counter() - began - compile_seconds
            self._after(name, facts, tick, _add(before, spent, compile_seconds), watch)
        assert position is not None  # every program has at least one iteration
        artifact = finish(work, position, self.config.num_seeds, self.interrupt.attentively)
        if name in HANDED_OVER:
            tensors.check_finite(artifact, f"the result of stage {name!r}")
        check(artifact)
        spent = time.perf_counter() - began - compile_seconds
        steps = {"iterations": position.iteration, "env_steps": position.iteration * facts.env_steps}
        self._finish(name, artifact, {**_add(before, spent, compile_seconds), **steps})
        self.report.end(name)
        self.interrupt.check()
        return artifact

    def attend(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something that is not a program, such as evaluation, and note how long it took."""
        self.report.begin(name, 0)
        began = time.perf_counter()
        result = self.interrupt.attentively(function)
        self.finished[name] = _add({}, time.perf_counter() - began, 0.0)
        self.report.end(name)
        return result

    def conclude(self, complete: bool) -> None:
        """If all is ``complete``, note that, and drop what only resuming needed."""
        if complete and self.folder is not None:
            self.folder.write_json(store.PROGRESS, self.finished)
            for name in ("scout", "measure"):
                self.folder.remove(FILES[name])

    @property
    def seconds(self) -> dict[str, float]:
        """Where the time went, over all sittings."""
        spent = {name: each["seconds"] for name, each in self.finished.items()}
        compiling = sum(each["compile_seconds"] for each in self.finished.values())
        return {"compile": compiling, **spent, "total": self.earlier + time.perf_counter() - self.began}

    def _standing(self, name: str, facts: Outline) -> tuple[Position | None, dict[str, float]]:
        """Where a stage stood when it was last saved, and the time it had taken."""
        position, spent = None, {}
        if self.folder is not None and self.folder.has(store.CHECKPOINT):
            whose = str(self.folder.place(store.CHECKPOINT))
            data = self.folder.read(store.CHECKPOINT)
            notes = tensors.notes_of(data, whose)
            if notes.get("stage") == name:
                state = tensors.decode(data, facts.state, whose, finite=False)
                sums = {key: np.asarray(value) for key, value in notes["sums"].items()}
                position, spent = Position(notes["iteration"], state, sums), notes["spent"]
                self.earlier += sum(spent.values())
        last = 0 if position is None else position.iteration
        self.rows = [row for row in self.rows if row.get("stage") != name or row.get("iteration", 0) <= last]
        return position, spent

    def _after(
        self, name: str, facts: Outline, tick: Tick, spent: dict[str, float], watch: Callable[[PyTree], Mapping]
    ) -> None:
        """What happens between two pieces."""
        iteration = tick.position.iteration
        if tick.row is not None:
            steps = iteration * facts.env_steps
            values = {key: [float(f"{each:.6g}") for each in value] for key, value in tick.row.items()}
            seconds = round(spent["seconds"], 3)
            self.rows.append({"stage": name, "iteration": iteration, "env_steps": steps, "seconds": seconds, **values})
        means = {key: float(np.mean(value)) for key, value in tick.metrics.items()} | dict(watch(tick.position.state))
        env_steps = facts.env_steps * self.config.num_seeds
        self.report.tick(name, Progressed(iteration, facts.iterations, tick.pace, env_steps, means))
        now = time.perf_counter()
        if tick.done:  # what comes next is the result, and an early end could not be told from a checkpoint
            return
        if self.interrupt.requested:
            self._save(name, tick.position, spent)
            raise Stopped
        if now - self.saved > max(CHECKPOINT_SECONDS, SAVING_COST * self.saving_took):
            self._save(name, tick.position, spent)
        elif now - self.logged > LOG_SECONDS:
            self._log()

    def _save(self, name: str, position: Position, spent: dict[str, float]) -> None:
        """Checkpoint. The log goes first: resuming drops what it has too much, and could not invent what it lacks."""
        if self.folder is None:
            return
        began = time.perf_counter()
        self._log()
        sums = {key: value.tolist() for key, value in position.sums.items()}
        notes = {"stage": name, "iteration": position.iteration, "sums": sums, "spent": spent}
        self.folder.save(store.CHECKPOINT, position.state, notes)
        self.saved = time.perf_counter()
        self.saving_took = self.saved - began

    def _log(self) -> None:
        if self.folder is not None:
            self.folder.write_log(self.rows)
        self.logged = time.perf_counter()

    def _finish(self, name: str, artifact: PyTree, facts: dict[str, float]) -> None:
        self.finished[name] = facts
        if self.folder is None:
            return
        self._log()
        if name == "place":
            self.folder.write(DISCOVERED, self.folder.read(file_of("discover", self.folder)))
        self.folder.save(FILES[name], artifact)
        self.folder.write_json(store.PROGRESS, self.finished)
        self.folder.remove(store.CHECKPOINT)


def file_of(stage: str, folder: Folder) -> str:
    """Where the result of a stage is."""
    return DISCOVERED if stage == "discover" and folder.has(DISCOVERED) else FILES[stage]


def unplace(folder: Folder) -> None:
    """Put the skills of `discover` back to where they were before `place`."""
    if folder.has(DISCOVERED):
        folder.write(FILES["discover"], folder.read(DISCOVERED))
        folder.remove(DISCOVERED)


def progress_of(folder: Folder | None) -> dict[str, dict[str, float]]:
    """The stages that a run has finished, with the steps and the seconds they took."""
    if folder is None or not folder.has(store.PROGRESS):
        return {}
    found = folder.read_json(store.PROGRESS)
    try:
        times = {"seconds", "compile_seconds"}
        if not all(times <= facts.keys() for facts in found.values()):
            raise ValueError("a stage without its times")
        return {name: {key: float(value) for key, value in facts.items()} for name, facts in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{folder.place(store.PROGRESS)} is damaged: the finished stages are wanted. Restore it, or run again."
        ) from error


def _add(before: Mapping[str, float], seconds: float, compile_seconds: float) -> dict[str, float]:
    return {
        "seconds": before.get("seconds", 0.0) + seconds,
        "compile_seconds": before.get("compile_seconds", 0.0) + compile_seconds,
    }

"""What a running run looks like, as a file in its folder that the server reads: checkpoint/live.json."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from edl.artifacts import SkillModel, SkillPolicy
from edl.envs.layouts import Layout
from edl.evaluate.metrics import METRICS
from edl.figures.palette import palette
from edl.figures.panel import density_json, maze_panel, maze_seed
from edl.runs.live import experience_of
from edl.runs.progress import StageProgress
from edl.runs.store import Folder

LIVE = "checkpoint/live.json"
MAX_HISTORY = 400
"""Maximum number of points of the curves."""
SECONDS, MAX_SECONDS, COST = 1.0, 10.0, 20.0
"""Pictures are at least `SECONDS` apart, and `COST` times as long as the last one took, but at most `MAX_SECONDS`."""


class LiveView:
    """A `Watcher` that writes how far a run is, and what it has explored, discovered and learned so far.

    It also ends the run with a checkpoint if the process that started it is gone.
    """

    def __init__(self, folder: Folder, layout: Layout | None, horizon: int):
        self.folder, self.layout, self.horizon = folder, layout, horizon
        self.parent = os.getppid()
        self.shown: dict[str, Any] = {"density": None, "goals": None, "colours": [], "panel": None}
        self.next_picture = 0.0
        self.began = time.time()
        self.history: list[dict[str, Any]] = []

    def stage_started(self, stage: str, iterations: int) -> None:
        self.next_picture = 0.0  # the first picture of the stage before may have taken long, because it was compiled
        self._write({"stage": stage, "iteration": 0, "iterations": iterations, "rate": None, "metrics": {}})

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        if os.getppid() != self.parent:
            os.kill(os.getpid(), signal.SIGINT)
        rate = progress.rate * progress.env_steps if progress.env_steps else None
        metrics = {name: value for name, value in progress.metrics.items() if name in METRICS}
        self.history.append({"seconds": round(time.time() - self.began, 2), "stage": stage, "rate": rate, **metrics})
        if len(self.history) > MAX_HISTORY:
            self.history = self.history[::2]
        facts = {"iteration": progress.iteration, "iterations": progress.iterations, "rate": rate}
        self._write({"stage": stage, **facts, "metrics": dict(progress.metrics)})

    def stage_finished(self, stage: str) -> None: ...

    def stage_state(self, stage: str, state: Any, artifact: Callable[[], Any]) -> None:
        """Draw the first seed, if it is time."""
        began = time.perf_counter()
        if self.layout is None or began < self.next_picture:
            return
        experience = experience_of(state)
        if experience is not None:
            paths, lengths = np.asarray(experience.paths[0]), np.asarray(experience.lengths[0])
            visited = paths[np.arange(paths.shape[1]) <= lengths[:, None]]
            if lengths.any():
                self.shown["density"] = density_json(self.layout, visited)
        else:
            self._show_artifact(artifact())
        now = time.perf_counter()
        self.next_picture = now + min(max(SECONDS, COST * (now - began)), MAX_SECONDS)

    def _show_artifact(self, made: Any) -> None:
        """Show the goals of skills, or the policy."""
        if isinstance(made, SkillModel):
            self.shown["goals"] = np.asarray(made.goals[0], float).round(3).tolist()
            self.shown["colours"] = palette(len(self.shown["goals"]))
        elif isinstance(made, SkillPolicy) and self.layout is not None:
            first = jax.tree.map(lambda x: np.asarray(x)[0], made)
            goals = None if self.shown["goals"] is None else np.array(self.shown["goals"])
            seed = maze_seed(0, self.layout, first, None, goals)
            self.shown["panel"] = maze_panel("live", self.layout, self.horizon, [seed])

    def _write(self, facts: dict[str, Any]) -> None:
        self.folder.write_json(LIVE, {**facts, **self.shown, "history": self.history})

"""Stages that the points of a grid have in common, run once for all of them.

What a stage depends on is told by `SETTINGS` and `AFTER`. Points that agree in all of that share its lanes: those of
point p and seed s are numbered ``which[p] * num_seeds + s``.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from edl.runs import driver, lanes, stages, tensors
from edl.runs.driver import Tick, Work
from edl.runs.grid import Point, unique
from edl.runs.interrupt import Interrupt
from edl.runs.lanes import Lanes
from edl.runs.session import HANDED_OVER, Progressed, Report
from edl.runs.config import RunConfig, to_json

SETTINGS: dict[str, Callable[[RunConfig], Any]] = {
    "explore": lambda config: config.explorer,
    "discover": lambda config: config.discoverer,
    "scout": lambda config: config.scout,
    "measure": lambda config: config.learner,
    "place": lambda config: None,
    "learn": lambda config: config.learner if config.method == "edl" else config.baseline,
}
"""The settings that a stage is given, as the last input of its work."""
AFTER = {
    "discover": ("explore",),
    "measure": ("explore", "scout"),
    "place": ("explore", "discover", "measure"),
    "learn": ("discover", "measure", "place"),
}
"""The stages whose results a stage is given."""


class Sitting(NamedTuple):
    """What all stages of a sweep need: devices, someone who may stop it, someone who watches, a bound on its width."""

    mesh: Mesh | None
    interrupt: Interrupt
    report: Report
    most: int | None


class Stage(NamedTuple):
    """The results of one stage, and whose they are."""

    found: Lanes
    which: list[int]
    num_seeds: int

    def of(self, points: Sequence[int]) -> PyTree:
        """The results for these points, all seeds of the first, then all of the second ..."""
        chosen = self._lanes(points)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen]), self.found.artifact)

    def rows(self, name: str, point: int) -> list[dict[str, Any]]:
        """The rows of one point's log."""
        chosen, length = self._lanes([point]), self.found.iterations
        seconds = self.found.seconds / (len(set(self.which)) * length)
        return [
            {
                "stage": name,
                "iteration": row["iteration"],
                "env_steps": row["iteration"] * self.found.env_steps,
                "seconds": round(seconds * row["iteration"], 3),
                **{key: [float(f"{each:.6g}") for each in row[key][chosen]] for key in row if key != "iteration"},
            }
            for row in self.found.rows
        ]

    def facts(self) -> dict[str, float]:
        """What it took, per point."""
        share = len(set(self.which))
        steps = {"iterations": self.found.iterations, "env_steps": self.found.iterations * self.found.env_steps}
        return {"seconds": self.found.seconds / share, "compile_seconds": self.found.compile_seconds / share, **steps}

    def _lanes(self, points: Sequence[int]) -> np.ndarray:
        first = np.array([self.which[point] * self.num_seeds for point in points])
        return (first[:, None] + np.arange(self.num_seeds)).reshape(-1)


def places_of(stage: str, group: Sequence[Point]) -> tuple[list[int], list[int]]:
    """The first points of each kind, where points are of a kind if this stage is the same for them; and every kind."""
    return unique(_identity(stage, point.config) for point in group)


def _identity(stage: str, config: RunConfig) -> str:
    settings = SETTINGS[stage](config)
    plain = None if settings is None else to_json(settings)
    if stage == "measure" and plain is not None:  # the rest of the learner's settings does not concern it
        plain = {name: plain[name] for name in ("distance", "walking")}
    before = [_identity(each, config) for each in AFTER.get(stage, ()) if config.method == "edl"]
    return json.dumps([plain, before])


def run_stage(stage: str, work: Work, group: Sequence[Point], sitting: Sitting, title: str) -> Stage:
    """One stage, for every kind of point and every seed."""
    config = group[0].config
    places, which = places_of(stage, group)
    settings = SETTINGS[stage](config)
    if settings is not None and work.inputs[-1] is settings:
        stacked = stack([SETTINGS[stage](group[i].config) for i in places], config.num_seeds)
        work = work._replace(inputs=(*work.inputs[:-1], stacked), per_seed=(*work.per_seed[:-1], True))
    keys = jnp.tile(stages.keys(config, stage), len(places))
    facts = driver.outline(work, keys.shape[0])
    sitting.report.begin(title, facts.iterations)

    def watch(tick: Tick, part: int, parts: int, width: int) -> None:
        means = {name: float(np.mean(value)) for name, value in tick.metrics.items()}
        reached = part * facts.iterations + tick.position.iteration
        progressed = Progressed(reached, parts * facts.iterations, tick.pace, facts.env_steps * width, means)
        sitting.report.tick(title, progressed)
        sitting.interrupt.check()

    found = lanes.run(work, keys, sitting.mesh, sitting.interrupt.attentively, watch, sitting.most)
    if stage in HANDED_OVER:
        tensors.check_finite(found.artifact, f"the result of stage {stage!r}")
    sitting.report.end(title)
    return Stage(found, which, config.num_seeds)


def stack(configs: Sequence[PyTree], repeats: int) -> PyTree:
    """Configs as one whose floats are arrays, each repeated for every seed."""
    return jax.tree.map(lambda *leaves: np.repeat(np.array(leaves, np.float32), repeats), *configs)

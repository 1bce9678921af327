"""Run any `Program` from Python."""

import dataclasses
from typing import Any, TypeVar

import jax
import numpy as np

from edl.api.display import show_progress
from edl.program import Program
from edl.runs.driver import Work, advance, finish
from edl.runs.progress import Progress, StageProgress
from edl.types import Key

A = TypeVar("A")


@dataclasses.dataclass(frozen=True)
class _Constant:
    """Builds a program that exists already."""

    program: Program

    def __call__(self) -> Program:
        return self.program


def run_to_end(
    program: Program[Any, A],
    key: Key | int = 0,
    *,
    progress: bool | Progress | None = None,
    name: str = "program",
) -> tuple[A, dict[str, np.ndarray]]:
    """Run a program until it is done: its artifact, and a log of at most a hundred rows, one array per metric.

    A program is done after ``program.iterations`` iterations, or when its metric ``done`` is 1 at the end of a row of
    the log (see `edl.program.stop_at_target`). ``key`` is a JAX key or a seed. The log has the means of the metrics
    over the iterations of each row, and the number of the row's last ``iteration``. ``name`` is
    shown with the progress.
    """
    keys = (jax.random.key(key) if isinstance(key, int) else key)[None]
    work, rows, position = Work(_Constant(program), (), ()), [], None
    with show_progress(progress) as display:
        display.stage_started(name, program.iterations)
        for tick in advance(work, keys):
            position = tick.position
            means = {metric: float(value[0]) for metric, value in tick.metrics.items()}
            display.stage_advanced(
                name,
                StageProgress(position.iteration, program.iterations, tick.rate, program.env_steps, means),
            )
            if tick.row is not None:
                rows.append({"iteration": position.iteration} | {metric: float(x[0]) for metric, x in tick.row.items()})
        display.stage_finished(name)
    assert position is not None  # every program has at least one iteration
    artifact = jax.tree.map(lambda leaf: leaf[0], finish(work, position, 1))
    return artifact, {metric: np.array([row[metric] for row in rows]) for metric in rows[0]}

"""A grid of runs as one vmapped program: `sweep` writes a run folder per point, a table and a heat map.

`edl.runs.points` runs the points: they share stages and programs where they can. A stopped sweep can be resumed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from edl.config import ConfigError
from edl.runs import evaluation, store
from edl.runs.grid import SweepGrid
from edl.runs.interrupt import catch_interrupts
from edl.runs.limits import check_estimates, traced
from edl.runs.pipeline import outlines
from edl.runs.points import LaneContext, env_key, evaluate_point, group_contexts, open_point, run_group
from edl.runs.progress import Progress, SilentProgress
from edl.runs.resolve import make_context, with_dataset
from edl.runs.result import load
from edl.runs.store import POINTS, SWEEP, Folder
from edl.runs.summary import Summary, publish, scores_of, summarise


def sweep(
    grid: SweepGrid,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    devices: Sequence[Any] | None = None,
    max_lanes: int | None = None,
) -> Summary:
    """Run every point of a grid. ``max_lanes`` and memory limit how many lanes run at a time.

    A point that fails, e.g. because it diverges, is marked in the summary, and the others are kept.
    """
    for group in () if resume else grid.groups:  # the dry run: reject bad points before anything is written
        first = group[0].config
        where = with_dataset(first, make_context(first))
        check_estimates(first, traced(lambda first=first, where=where: outlines(first, where)))
    metrics: dict[int, dict[str, Any]] = {}
    failures: dict[int, str] = {}
    with catch_interrupts() as interrupt, open_sweep(grid, out, resume) as folder:
        chosen = jax.devices() if devices is None else list(devices)
        context = LaneContext(chosen, interrupt, progress or SilentProgress(), max_lanes)
        for number, group in enumerate(grid.groups, 1):
            title = f" {number}/{len(grid.groups)}" if len(grid.groups) > 1 else ""
            points = {
                each.number: open_point(each.name, each.config, folder.path / POINTS / each.name) for each in group
            }
            contexts = group_contexts([each.config for each in group])
            run_group(list(points.values()), contexts, context, title)
            context.progress.stage_started(f"evaluate{title}", 0)
            for key, point in points.items():
                where = contexts[env_key(point.config)]
                try:
                    if not point.failures:
                        metrics[key] = interrupt.run_interruptible(lambda p=point, w=where: evaluate_point(p, w))
                except ConfigError as error:
                    point.failures.append(f"{point.name}: {error}")
            failures |= {key: point.failures[0] for key, point in points.items() if point.failures}
            context.progress.stage_finished(f"evaluate{title}")
        if failures and not metrics:
            raise ConfigError(f"all {len(grid.points)} points failed. Point {next(iter(failures.values()))}")
        summary = summarise(grid, metrics, failures)
        interrupt.run_interruptible(lambda: write_summary(folder, summary))
    return summary


@contextlib.contextmanager
def open_sweep(grid: SweepGrid, out: str | Path, resume: bool) -> Iterator[Folder]:
    """The folder of a sweep, locked: a new one, or one that was started before with the same grid."""
    started = (Path(out) / SWEEP).is_file()
    if started and not resume:
        raise ConfigError(
            f"output folder {str(out)!r} already holds a sweep. Continue it with --resume, or choose another --out."
        )
    if not started:
        with store.new_folder(out) as folder:
            folder.write_json(SWEEP, grid.content)
            yield folder
        return
    folder = Folder(Path(out))
    with store.locked(folder):
        if folder.read_json(SWEEP) != store.plain(grid.content):
            raise ConfigError(
                f"{str(out)!r} holds a sweep of another grid. Resume with the same file, or choose another --out."
            )
        yield folder


def write_summary(folder: Folder, summary: Summary) -> None:
    """Write the tables, the heat map, and the figures and report of the best point."""
    publish(folder, summary, draw_heat_map(summary))
    if summary.best is not None:
        best = load(folder.path / POINTS / summary.grid.points[summary.best].name)
        assert best.path is not None
        drawings = evaluation.draw_figures(best, evaluation.evaluate_run(best))
        evaluation.write_report(store.open_run(best.path), best.metrics or {}, drawings)


def draw_heat_map(summary: Summary) -> bytes:
    """The heat map as PNG."""
    from edl import figures
    from edl.figures.heatmap import heat_map

    grid, best = summary.grid, None
    scores = scores_of(summary)
    if summary.best is not None:
        best = tuple(int(i) for i in np.unravel_index(summary.best, scores.shape))
    labels, values = [axis.label for axis in grid.axes], [[_short(v) for v in axis.values] for axis in grid.axes]
    envs = {point.config.env for point in grid.points}
    title = f"{grid.metric} on {envs.pop()}" if len(envs) == 1 else grid.metric
    return figures.to_png(heat_map(labels, values, scores, title, best, grid.goal == "min"))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

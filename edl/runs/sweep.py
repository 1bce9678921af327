"""A grid of runs as one vmapped program: `sweep` leaves a run folder per point, a table, a heat map, and the best.

Stages that points have in common run once: if points differ only in how they learn, every seed explores and discovers
once for all of them. What is left is run for all points and seeds together, as wide as memory allows, on all devices.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from edl.runs import assess, lanes, stages, store
from edl.runs import run as runs
from edl.runs.driver import Work
from edl.runs.grid import Grid, Point
from edl.runs.interrupt import listening
from edl.runs.result import Run, load
from edl.runs.session import DISCOVERED, FILES, HANDED_OVER, Quiet, Report
from edl.runs.sharing import Sitting, Stage, places_of, run_stage
from edl.runs.summary import Summary, publish, scores_of, summarise
from edl.learn.distance import Euclidean

POINTS = "points"
"""The folder of the runs, in the folder of the sweep."""


def sweep(
    grid: Grid,
    out: str | Path,
    *,
    report: Report | None = None,
    devices: Sequence[Any] | None = None,
    most: int | None = None,
) -> Summary:
    """Run every point of a grid. ``most`` bounds how many runs go at a time; memory does so anyway."""
    folder = store.create(out)
    widest = max(len(group) for group in grid.groups) * grid.groups[0][0].config.num_seeds
    mesh = lanes.mesh_of((jax.devices() if devices is None else list(devices))[:widest])
    metrics: dict[int, dict[str, Any]] = {}
    with listening() as interrupt:
        sitting = Sitting(mesh, interrupt, report or Quiet(), most)
        for number, group in enumerate(grid.groups, 1):
            title = f" {number}/{len(grid.groups)}" if len(grid.groups) > 1 else ""
            done = run_group(group, sitting, title)
            sitting.report.begin(f"evaluate{title}", 0)
            metrics |= interrupt.attentively(lambda group=group, done=done: leave_runs(group, done, folder.path))
            sitting.report.end(f"evaluate{title}")
        summary = summarise(grid, metrics)
        interrupt.attentively(lambda: illustrate(folder, summary))
    return summary


def run_group(group: Sequence[Point], sitting: Sitting, title: str = "") -> dict[str, Stage]:
    """All stages, for points that differ only in numbers."""
    config = group[0].config
    world = stages.with_data(config, stages.make_world(config))
    done: dict[str, Stage] = {}

    def run(stage: str, make: Callable[[Sequence[int]], Work]) -> None:
        work = make(places_of(stage, group)[0])
        done[stage] = run_stage(stage, work, group, sitting, stage + title)

    if config.method != "edl":
        run("learn", lambda points: stages.baseline_work(config, world))
        return done
    run("explore", lambda points: stages.explore_work(config, world))
    for i, point in enumerate(group):
        stages.check_explored(point.config, done["explore"].of([i]))
    run("discover", lambda points: stages.discover_work(config, done["explore"].of(points)))
    if config.learner.distance == "walking":
        if config.scout is not None:
            run("scout", lambda points: stages.scout_work(config, world))
        source = done["scout" if config.scout is not None else "explore"]
        run("measure", lambda points: stages.measure_work(config, source.of(points).experience))

    def of(stage: str, points: Sequence[int]) -> Any:
        return done[stage].of(points) if stage in done else Euclidean()

    def placing(points: Sequence[int]) -> Work:
        return stages.place_work(of("discover", points), of("explore", points), of("measure", points))

    places = stages.places_goals(config, done["discover"].of([0]))
    if places:
        run("place", placing)
    skills = "place" if places else "discover"
    run("learn", lambda points: stages.learn_work(config, world, of(skills, points), of("measure", points)))
    return done


def leave_runs(group: Sequence[Point], done: dict[str, Stage], root: Path) -> dict[int, dict[str, Any]]:
    """The folders of all points, and their metrics by number."""
    return {point.number: leave_run(point, i, done, root / POINTS) for i, point in enumerate(group)}


def leave_run(point: Point, place: int, done: dict[str, Stage], root: Path) -> dict[str, Any]:
    """The folder of one point: what `edl run` would have left, except the pictures."""
    folder = runs.begin(point.config, root / point.name)
    world = stages.make_world(point.config)
    handed = {name: done[name].of([place]) for name in HANDED_OVER if name in done}
    rows = [row for name, stage in done.items() for row in stage.rows(name, place)]
    for name, artifact in handed.items():
        folder.save(DISCOVERED if name == "discover" and "place" in done else FILES[name], artifact)
    folder.write_log(rows)
    finished = {name: stage.facts() for name, stage in done.items()}
    run = Run(
        config=point.config,
        env=world.env,
        layout=world.layout,
        states=handed.get("explore"),
        skills=handed.get("place", handed.get("discover")),
        policy=handed["learn"],
        log=rows,
        path=folder.path,
    )
    judged = assess.assess(run)
    finished["evaluate"] = {"seconds": 0.0, "compile_seconds": 0.0}
    folder.write_json(store.PROGRESS, finished)
    steps = {name: finished[name]["env_steps"] for name in ("explore", "scout", "learn") if name in finished}
    seconds = {name: facts["seconds"] for name, facts in finished.items()}
    metrics = store.plain(assess.metrics_of(run, judged, steps, seconds))
    folder.write_json(store.METRICS, metrics)
    return metrics


def illustrate(folder: store.Folder, summary: Summary) -> None:
    """Tables and heat map, and the pictures and report of the best point; `edl figure` makes those of the others."""
    publish(folder, summary, draw(summary))
    if summary.best is not None:
        best = load(folder.path / POINTS / summary.grid.points[summary.best].name)
        assert best.path is not None
        assess.publish(store.open_run(best.path), best, best.metrics or {}, assess.draw(best, assess.assess(best)))


def draw(summary: Summary) -> bytes:
    """The heat map as PNG."""
    from edl import figures
    from edl.figures.heatmap import heat_map

    grid, best = summary.grid, None
    scores = scores_of(summary)
    if summary.best is not None:
        best = tuple(int(i) for i in np.unravel_index(summary.best, scores.shape))
    labels, values = [axis.label for axis in grid.axes], [[_short(v) for v in axis.values] for axis in grid.axes]
    title = f"{grid.metric} on {grid.points[0].config.env}"
    return figures.to_png(heat_map(labels, values, scores, title, best, grid.goal == "min"))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

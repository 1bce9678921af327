"""The results of a sweep: a row per point, the best point by a metric, and the points that tie with it."""

import csv
import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from edl.runs.failures import failed_seeds_note
from edl.runs.grid import Point, SweepGrid
from edl.runs.store import Folder

TABLES = {"csv": "summary.csv", "json": "summary.json", "markdown": "summary.md"}


class Summary(NamedTuple):
    """All points with their metrics, and the number of the best point; None if no point has the metric.

    ``failures`` says why points failed. They have no metrics.
    """

    grid: SweepGrid
    metrics: Mapping[int, Mapping[str, Any]]
    best: int | None
    failures: Mapping[int, str] = MappingProxyType({})

    def score(self, point: Point) -> dict[str, Any] | None:
        """Mean and interval of the sweep's metric; none if it is not finite."""
        score = self.aggregate(point).get(self.grid.metric)
        return None if score is None or score["mean"] is None else score

    def aggregate(self, point: Point) -> dict[str, Any]:
        """All metrics of a point; none if it failed."""
        return self.metrics.get(point.number, {}).get("aggregate", {})

    def rivals(self) -> list[int]:
        """Points whose interval overlaps with that of the best point; all points if a seed each gives no interval."""
        if self.best is None:
            return []
        scores = {point.number: self.score(point) for point in self.grid.points}
        best = scores[self.best]
        assert best is not None
        others = {number: score for number, score in scores.items() if number != self.best and score is not None}
        if self.grid.points[self.best].config.num_seeds == 1:
            return list(others)
        low, high = best["ci95"]
        return [number for number, score in others.items() if score["ci95"][0] <= high and low <= score["ci95"][1]]


def summarise(
    grid: SweepGrid, metrics: Mapping[int, Mapping[str, Any]], failures: Mapping[int, str] | None = None
) -> Summary:
    """Pick the best point by the mean of the metric over seeds."""
    summary = Summary(grid, metrics, None, failures or {})
    scored = [(score["mean"], point.number) for point in grid.points if (score := summary.score(point)) is not None]
    if not scored:
        return summary
    sign = 1 if grid.goal == "min" else -1
    return summary._replace(best=min(scored, key=lambda each: (sign * each[0], each[1]))[1])


def rows_of(summary: Summary) -> list[dict[str, Any]]:
    """A row per point: its number, its settings, mean and interval of the metric, and the means of other metrics."""
    rows = []
    for point in summary.grid.points:
        settings = {axis.names[0]: value for axis, value in zip(summary.grid.axes, point.values, strict=True)}
        aggregate = summary.aggregate(point)
        score, name = summary.score(point), summary.grid.metric
        means = {key: each["mean"] for key, each in aggregate.items() if each is not None and key != name}
        low, high = (None, None) if score is None else score["ci95"]
        mean = {name: None if score is None else score["mean"], f"{name}_low": low, f"{name}_high": high}
        failed = {"failed": summary.failures.get(point.number)} if summary.failures else {}
        rows.append({"point": point.name, **settings, **mean, **means, **failed})
    return rows


def write_tables(folder: Folder, summary: Summary, picture: bytes) -> None:
    """Write the tables for people, then the heat map."""
    folder.write(TABLES["csv"], _csv(rows_of(summary)).encode())
    folder.write(TABLES["markdown"], markdown(summary).encode())
    folder.save_picture("heat_map", picture)


def write_json_table(folder: Folder, summary: Summary) -> None:
    """Write the table in JSON. It marks a sweep as finished, so it is the last file."""
    rows, best = rows_of(summary), summary.best
    kept = {
        "metric": summary.grid.metric,
        "goal": summary.grid.goal,
        "axes": [{"names": axis.names, "values": axis.values} for axis in summary.grid.axes],
        "num_seeds": summary.grid.points[0].config.num_seeds,
        "best": None if best is None else rows[best],
        "not_told_apart_from_the_best": [rows[i]["point"] for i in summary.rivals()],
        "points": rows,
    }
    folder.write_json(TABLES["json"], kept)


def _csv(rows: list[dict[str, Any]]) -> str:
    with io.StringIO() as text:
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def markdown(summary: Summary) -> str:
    """The table in Markdown, with the verdict below it."""
    grid, rows = summary.grid, rows_of(summary)
    names = [axis.names[0] for axis in grid.axes]
    head = ["point", *(axis.label for axis in grid.axes), grid.metric, "95 % interval"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        mean, interval = cells_of(summary, row)
        bold = "**" if summary.best is not None and row is rows[summary.best] else ""
        lines.append([f"{bold}{row['point']}{bold}", *(f"{row[name]}" for name in names), mean, interval])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([table, verdict(summary), *failure_notes(summary)]) + "\n"


def cells_of(summary: Summary, row: Mapping[str, Any]) -> tuple[str, str]:
    """Mean and 95 % interval of the metric as text. One seed has no interval."""
    mean, low, high = (row[f"{summary.grid.metric}{end}"] for end in ("", "_low", "_high"))
    if mean is None:
        return "failed" if row.get("failed") else "-", "-"
    many = summary.grid.points[int(row["point"])].config.num_seeds > 1
    return f"{mean:.3f}", f"{low:.3f} to {high:.3f}" if many else "-"


def failure_notes(summary: Summary) -> list[str]:
    """A sentence about the points that failed, and one about those of which some seeds failed."""
    points, notes = summary.grid.points, []
    if summary.failures:
        reasons = "; ".join(f"point {reason}" for reason in summary.failures.values())
        notes.append(f"{len(summary.failures)} of {len(points)} points failed and have no metrics: {reasons}")
    seeds = [(point, failed_seeds_note(summary.metrics.get(point.number, {}))) for point in points]
    return notes + [f"Point {point.name}: {note}" for point, note in seeds if note is not None]


def verdict(summary: Summary) -> str:
    """One sentence about the best point and the points that tie with it."""
    grid = summary.grid
    if summary.best is None:
        return f"No point has the metric {grid.metric}, so there is no best point."
    point = grid.points[summary.best]
    score = summary.score(point)
    assert score is not None
    low, high = score["ci95"]
    settings = ", ".join(f"{axis.label} {value}" for axis, value in zip(grid.axes, point.values, strict=True))
    seeds, rivals = point.config.num_seeds, summary.rivals()
    about = f"Best by {grid.metric}: point {point.name} ({settings}), {score['mean']:.3f} "
    if seeds == 1:
        return about + "with one seed. One seed has no interval: give num_seeds to see whether points differ."
    sure = f"[{low:.3f}, {high:.3f}] over {seeds} seeds."
    return about + sure + (f" The intervals of {len(rivals)} other points overlap with it." if rivals else "")


def scores_of(summary: Summary) -> np.ndarray:
    """Means of the metric in the shape of the grid; of a search, one per point."""
    scores = [summary.score(point) for point in summary.grid.points]
    means = [np.nan if score is None else score["mean"] for score in scores]
    if summary.grid.search is not None:
        return np.array(means)
    return np.array(means).reshape([len(axis.values) for axis in summary.grid.axes])

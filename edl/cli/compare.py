"""``edl compare RUN...``: a table over runs on the terminal, and as CSV, Markdown and a figure."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from edl.cli.console import new_console, print_labelled
from edl.config import check
from edl.evaluate.metrics import METRICS
from edl.runs.compare import Entry, compare, definition_notes, to_csv, to_markdown

ABOUT = "Compare runs: mean and 95 % interval of each metric, and the probability that a run beats the first one."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl compare``."""

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN")]
    """Folders of runs. The others are compared with the first."""
    metrics: tuple[str, ...] = ()
    """Metrics of metrics.json. The usual ones by default."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as CSV to this file."""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as Markdown to this file."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Draw the table, with intervals, to this file (.png or .svg)."""


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl compare", description=ABOUT)
    check(len(options.runs) > 0, "edl compare needs at least one run: pass the folders of runs.")
    if options.plot is not None:
        check(options.plot.suffix in (".png", ".svg"), f"--plot must end in .png or .svg (got {options.plot}).")
    entries = compare(options.runs, options.metrics)
    check(len(entries) > 0, "these runs have no metrics to compare. Run `edl evaluate` on each.")
    console, notes = new_console(), definition_notes(options.runs)
    console.print(comparison_table(entries))
    for note in notes:
        print_labelled(console, "note", note)
    for path, content in contents(options, entries, notes).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print_labelled(console, "wrote", str(path))
    return 0


def comparison_table(entries: list[Entry]) -> Table:
    """A line per metric and, below it, a row per run, with the best mean in bold."""
    table = Table(pad_edge=False, box=None)
    table.add_column("metric, run", overflow="fold")
    for name in ("mean", "95% interval", "IQM", "seeds", "beats the first"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in dict.fromkeys(entry.metric for entry in entries):
        rows, metric = [entry for entry in entries if entry.metric == name], METRICS.get(name)
        best = None if metric is None else max(metric.sign * entry.mean for entry in rows)
        table.add_row(name)
        for entry in rows:
            is_best = metric is not None and len(rows) > 1 and metric.sign * entry.mean == best
            table.add_row(f"  {entry.run}", *_numbers(entry), style="bold" if is_best else None)
    return table


def _numbers(entry: Entry) -> tuple[str, ...]:
    low, high = entry.ci95
    many = len(entry.values) > 1
    probability = "" if entry.improvement is None else f"{entry.improvement:.2f}"
    if entry.improvement_ci95 is not None and many:
        probability += f" [{entry.improvement_ci95[0]:.2f}, {entry.improvement_ci95[1]:.2f}]"
    interval = f"{low:.3f} to {high:.3f}" if many else ""
    return f"{entry.mean:.3f}", interval, f"{entry.iqm:.3f}", str(len(entry.values)), probability


def contents(options: Options, entries: list[Entry], notes: list[str]) -> dict[Path, bytes]:
    """The files to write, and their contents."""
    files: dict[Path, bytes] = {}
    if options.csv is not None:
        files[options.csv] = to_csv(entries).encode()
    if options.markdown is not None:
        files[options.markdown] = to_markdown(entries, notes).encode()
    if options.plot is not None:
        from edl.figures import to_png, to_svg
        from edl.figures.intervals import intervals_figure

        scores: dict[str, dict[str, list[float]]] = {}
        for entry in entries:
            scores.setdefault(entry.metric, {})[entry.run] = entry.values
        figure = intervals_figure(scores)
        files[options.plot] = to_svg(figure) if options.plot.suffix == ".svg" else to_png(figure)
    return files

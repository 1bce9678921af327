"""``edl compare RUN...``: a table over runs on the terminal, and as CSV, Markdown and a picture."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from edl.config import ConfigError, check
from edl.runs.compare import METRICS, Entry, compare, to_csv, to_markdown

ABOUT = "Runs beside each other: mean and 95 % interval of every metric, and how surely each run beats the first."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to compare."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Folders of runs. The others are compared to the first."""
    metrics: tuple[str, ...] = ()
    """Metrics of metrics.json; the usual ones if none is named."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as CSV."""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as Markdown."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Draw it, with intervals, as .png or .svg."""


def main(words: list[str]) -> int:
    """Run the command."""
    from edl.cli.commands import console

    options = tyro.cli(Options, args=words, prog="edl compare", description=ABOUT)
    check(len(options.runs) > 0, "no runs", "`edl compare RUN...` wants at least one", "Name their folders.")
    if options.plot is not None and options.plot.suffix not in (".png", ".svg"):
        raise ConfigError(f"--plot {options.plot}: a name that ends in .png or .svg is wanted. Rename it.")
    entries = compare(options.runs, options.metrics)
    check(len(entries) > 0, "runs without numbers", "finished runs are wanted", "Run `edl evaluate` on each.")
    console().print(table(entries))
    for path, content in contents(options, entries).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        console().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    return 0


def table(entries: list[Entry]) -> Table:
    """A row per metric and run, best mean in bold."""
    shown = Table(pad_edge=False, box=None)
    for name in ("metric", "run", "mean", "95% interval", "IQM", "seeds", "beats the first"):
        shown.add_column(name, justify="left" if name in ("metric", "run") else "right", overflow="fold")
    for metric in dict.fromkeys(entry.metric for entry in entries):
        rows = [entry for entry in entries if entry.metric == metric]
        pick = min if METRICS.get(metric) == "lower" else max
        best = pick(entry.mean for entry in rows)
        for i, entry in enumerate(rows):
            low, high = entry.ci95
            chance = "" if entry.improvement is None else f"{entry.improvement:.2f}"
            if entry.improvement_ci95 is not None and len(entry.values) > 1:
                chance += f" [{entry.improvement_ci95[0]:.2f}, {entry.improvement_ci95[1]:.2f}]"
            interval = f"{low:.3f} to {high:.3f}" if len(entry.values) > 1 else ""
            facts = (f"{entry.mean:.3f}", interval, f"{entry.iqm:.3f}", str(len(entry.values)), chance)
            style = "bold" if entry.mean == best and len(rows) > 1 and metric in METRICS else None
            shown.add_row(metric if i == 0 else "", entry.run, *facts, style=style, end_section=i == len(rows) - 1)
    return shown


def contents(options: Options, entries: list[Entry]) -> dict[Path, bytes]:
    """The files that are asked for."""
    files: dict[Path, bytes] = {}
    if options.csv is not None:
        files[options.csv] = to_csv(entries).encode()
    if options.markdown is not None:
        files[options.markdown] = to_markdown(entries).encode()
    if options.plot is not None:
        from edl.figures import to_png, to_svg
        from edl.figures.intervals import intervals_figure

        scores: dict[str, dict[str, list[float]]] = {}
        for entry in entries:
            scores.setdefault(entry.metric, {})[entry.run] = entry.values
        figure = intervals_figure(scores, METRICS)
        files[options.plot] = to_svg(figure) if options.plot.suffix == ".svg" else to_png(figure)
    return files

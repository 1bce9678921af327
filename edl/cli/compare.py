"""``edl compare RUN...``: a table over runs on the terminal, and as CSV, Markdown, a figure and an interactive page."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from edl.cli.console import new_console, print_labelled, print_table
from edl.cli.options import EnvAgain
from edl.config import ConfigError, check
from edl.runs.compare import Entry, compare, definition_notes, env_notes, names_of, seed_notes, to_csv, to_markdown

ABOUT = (
    "Compare runs: mean and 95 % interval of each metric, and whether a run beats the first one. Runs in different "
    "envs are not ranked."
)


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
    page: Annotated[Path | None, tyro.conf.arg(metavar="[FILE]")] = None
    """Write an interactive page that shows the runs side by side. Without a name it is compare.html."""
    env: EnvAgain = None


MAX_PANELS = 4
PAGE = "compare.html"
"""The default of ``--page``."""


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=with_page_name(words), prog="edl compare", description=ABOUT)
    check(len(options.runs) > 0, "needs at least one run: pass the folders of runs.")
    if options.plot is not None:
        check(options.plot.suffix in (".png", ".svg"), f"--plot must end in .png or .svg (got {options.plot}).")
    page = None if options.page is None else page_of(options.runs, options.env)
    entries = compare(options.runs, options.metrics)
    check(len(entries) > 0, "these runs have no metrics to compare. Run `edl evaluate` on each.")
    console, notes = new_console(), [*env_notes(options.runs), *seed_notes(entries), *definition_notes(options.runs)]
    print_table(console, comparison_table(entries, names_of(options.runs)[0]))
    for note in notes:
        print_labelled(console, "note", note)
    files = contents(options, entries, notes)
    if options.page is not None and page is not None:
        files[options.page] = page.encode()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print_labelled(console, "wrote", str(path))
    return 0


def with_page_name(words: list[str]) -> list[str]:
    """The words, with the default name after a ``--page`` that no HTML file follows."""
    named = list(words)
    if "--page" in named:
        after = named.index("--page") + 1
        if after == len(named) or not named[after].endswith(".html"):
            named.insert(after, PAGE)
    return named


def page_of(paths: tuple[str, ...], env: str | None = None) -> str:
    """The interactive page of two to four runs."""
    from edl.figures.panel import page_of_runs
    from edl.runs.evaluation import panel_of
    from edl.runs.result import load

    check(2 <= len(paths) <= MAX_PANELS, f"--page shows 2 to {MAX_PANELS} runs (got {len(paths)}). Name that many.")
    panels = []
    for name, path in zip(names_of(paths), paths, strict=True):
        panel = panel_of(load(path, env=env))
        if panel is None:
            raise ConfigError(
                f"{path} cannot be shown on a page: it must have a policy that a page can play. Leave it out."
            )
        panels.append({**panel, "title": f"{name}: {panel['title']}"})
    return page_of_runs(panels)


def comparison_table(entries: list[Entry], first: str = "the first run") -> Table:
    """A line per metric and, below it, a row per run. A run that beats the first one is in bold.

    P(better) is the probability that a seed of the run is better than a seed of the first one. "beats" and "loses"
    are claimed only if the 95 % interval of this probability excludes one half.
    """
    table = Table(pad_edge=False, box=None)
    table.add_column("metric, run", no_wrap=True)
    for name in ("mean", "95% interval", "IQM", "seeds", "P(better)", f"against {first}"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in dict.fromkeys(entry.metric for entry in entries):
        table.add_row(name)
        for entry in (entry for entry in entries if entry.metric == name):
            style = "bold" if entry.verdict == "beats" else None
            table.add_row(f"  {entry.run}", *_numbers(entry), style=style)
    return table


def _numbers(entry: Entry) -> tuple[str, ...]:
    low, high = entry.ci95
    probability = ""
    if entry.verdict and entry.improvement_ci95 is not None:
        probability = f"{entry.improvement:.2f} [{entry.improvement_ci95[0]:.2f}, {entry.improvement_ci95[1]:.2f}]"
    interval = f"{low:.3f} to {high:.3f}" if len(entry.values) > 1 else ""
    return f"{entry.mean:.3f}", interval, f"{entry.iqm:.3f}", str(len(entry.values)), probability, entry.verdict


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

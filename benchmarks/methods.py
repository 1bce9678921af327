"""The picture of docs/results.md with a panel per method: one rollout of each of its ten skills in the bottleneck maze.

edl tables methods --mazes bottleneck           # measures the methods, and keeps the rollouts of the first seed
python benchmarks/methods.py                    # draws docs/images/methods.png
python benchmarks/methods.py --train            # first trains the first seed of methods whose result has no rollouts

A method whose result has no rollouts is left out and named. Results that were measured before edl kept rollouts have
none. ``--train`` adds them to the table: it trains the first seed again, and leaves all numbers as they are.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edl.envs import layout_of
from edl.figures.panels import Panel, panels_figure
from edl.runs.store import Folder
from edl.tables import TABLES
from edl.tables.make import RUNS, Job, execute, read_rows, write_table
from edl.tables.methods import DRAWN, NAME, PATHS, TUNED_IN, key_of, label_of, rows_for
from edl.tables.table import Result, Row, TableSettings, is_finished
from edl.tables.tuning import SCORE

COLUMNS = 6


def results_with_paths(folder: Folder) -> dict[str, Result]:
    """The results that have rollouts, by method, in the order of the tables."""
    rows = read_rows(folder, NAME)
    found = {method: rows.get(key_of(TUNED_IN, method), {}) for method in DRAWN}
    return {method: each for method, each in found.items() if PATHS in each.get("measured", {})}


def train_missing(folder: Folder, runs: Path, methods: Sequence[str]) -> None:
    """Add the rollouts of the first seed to finished results that have none."""
    records = {name: dict(read_rows(folder, name)) for name in TABLES}
    for row in rows_for(TableSettings(), records, [*methods], [TUNED_IN]):
        if row.table == NAME and is_finished(row, records):
            print(f"training the first seed of {row.facts['method']}", flush=True)
            trained = execute(runs, Job((of_one_seed(row),))).results[row.key]
            records[NAME] = dict(read_rows(folder, NAME))
            result = records[NAME][row.key]
            paths = {PATHS: trained["measured"][PATHS], "paths_commit": trained["commit"]}
            records[NAME][row.key] = {**result, "measured": {**result.get("measured", {}), **paths}}
            write_table(folder, NAME, records)


def of_one_seed(row: Row) -> Row:
    """The same row for its first seed alone, with nothing but its rollouts measured."""
    return row._replace(config=dataclasses.replace(row.config, num_seeds=1), measure=None)


def panel_of(method: str, result: Result) -> Panel:
    """The rollouts of one method. The number is its distance from the best skill to a random point."""
    paths = np.asarray(result["measured"][PATHS])[:, None]
    return Panel(layout_of(TUNED_IN), label_of(method).strip("*`"), f"{SCORE} {result['mean'][SCORE]:.2f}", paths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=Path("docs/results/tables"), help="folder of the JSON files")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/methods.png"))
    parser.add_argument("--runs", type=Path, default=Path(RUNS), help="folder of the runs of --train")
    parser.add_argument("--train", nargs="*", metavar="METHOD", help="train the first seed of these methods, or of all")
    options = parser.parse_args()
    folder = Folder(options.tables)
    if options.train is not None:
        without = [method for method in DRAWN if method not in results_with_paths(folder)]
        train_missing(folder, options.runs, [each for each in options.train or without if each in without])
    found = results_with_paths(folder)
    missing = [method for method in DRAWN if method not in found]
    if missing:
        print(f"without rollouts: {', '.join(missing)}")
    if found:
        panels = [panel_of(method, each) for method, each in found.items()]
        figure = panels_figure([panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS)], side=2.2)
        figure.savefig(options.picture, dpi=130)
        print(f"{len(panels)} panels: {options.picture}")


if __name__ == "__main__":
    main()

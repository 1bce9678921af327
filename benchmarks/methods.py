"""The picture of docs/results.md with a panel per method: one rollout of each of its ten skills in the bottleneck maze.

edl tables methods --mazes bottleneck           # measures the methods, and keeps the rollouts of the first seed
python benchmarks/methods.py                    # draws docs/images/methods.png

A method whose result has no rollouts is left out and named. More folders of tables can be given: the first one that
has the rollouts of a method counts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edl.envs import layout_of
from edl.figures.panels import Panel, panels_figure
from edl.runs.store import Folder
from edl.tables.make import read_rows
from edl.tables.methods import NAME, TUNED_IN, key_of
from edl.tables.table import COMPARED, Result
from edl.tables.tuning import SCORE

COLUMNS = 6


def results_with_paths(folders: Sequence[Path]) -> dict[str, Result]:
    """The results that have rollouts, by method, in the order of the tables."""
    found = {}
    for rows in [read_rows(Folder(folder), NAME) for folder in folders]:
        for method in COMPARED:
            each = rows.get(key_of(TUNED_IN, method), {})
            if "paths" in each.get("measured", {}):
                found.setdefault(method, each)
    return {method: found[method] for method in COMPARED if method in found}


def panel_of(method: str, result: Result) -> Panel:
    """The rollouts of one method. The number is its distance from the best skill to a random point."""
    paths = np.asarray(result["measured"]["paths"])[:, None]
    return Panel(layout_of(TUNED_IN), method, f"{SCORE} {result['mean'][SCORE]:.2f}", paths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = [Path("docs/results/tables")]
    parser.add_argument("tables", type=Path, nargs="*", default=default, help="folders of the JSON files")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/methods.png"))
    options = parser.parse_args()
    found = results_with_paths(options.tables)
    missing = [method for method in COMPARED if method not in found]
    if missing:
        print(f"without rollouts: {', '.join(missing)}")
    if found:
        panels = [panel_of(method, each) for method, each in found.items()]
        figure = panels_figure([panels[i : i + COLUMNS] for i in range(0, len(panels), COLUMNS)], side=2.2)
        figure.savefig(options.picture, dpi=130)
        print(f"{len(panels)} panels: {options.picture}")


if __name__ == "__main__":
    main()

"""The picture of docs/explorers.md: coverage of every explorer against environment steps.

edl tables explorers explorers_million          # measures the curves
python benchmarks/explorers.py                  # draws docs/images/explorers.png
"""

import argparse
from pathlib import Path

from matplotlib import pyplot as plt

from edl.figures.palette import palette
from edl.runs.store import Folder
from edl.tables.explorers import BUDGETS, RANDOM, explorers
from edl.tables.make import read_rows
from edl.tables.table import MAZES, Results

RANDOM_COLOURS = ("#9a9a9a", "#3a3a3a")
"""Greys, which the palette does not have: the random baselines are no explorers."""
LINES = {name: {"linestyle": "--"} for name in RANDOM}
"""Lines that are not solid."""
LEGEND_COLUMNS = 6


def colours_of(names: list[str]) -> dict[str, str]:
    """A colour for each of these explorers and for the random baselines."""
    return dict(zip([*names, *RANDOM], [*palette(len(names)), *RANDOM_COLOURS], strict=True))


def draw(tables: dict[str, Results], picture: Path) -> None:
    """One panel per budget and maze. Lines are means, bands range from the worst seed to the best."""
    colours = colours_of([name for name in explorers() if name not in RANDOM])
    figure, axes = plt.subplots(
        len(tables), len(MAZES), figsize=(12, 3.25 * len(tables)), sharey=True, squeeze=False, layout="constrained"
    )
    for row, (table, results) in zip(axes, tables.items(), strict=True):
        for panel, maze in zip(row, MAZES, strict=True):
            panel.set_title(f"{maze}, {BUDGETS[table] // 1000}k steps", fontsize=10)
            panel.set(xlim=(0, BUDGETS[table] / 1000), ylim=(0, 1.02))
            panel.spines[["top", "right"]].set_visible(False)
            for name, colour in colours.items():
                curve = results.get(f"{maze}/{name}", {}).get("measured")
                if curve is not None:
                    steps = [each / 1000 for each in curve["env_steps"]]
                    panel.plot(steps, curve["mean"], color=colour, label=name, **LINES.get(name, {}))
                    panel.fill_between(steps, curve["low"], curve["high"], alpha=0.15, color=colour, linewidth=0)
        row[0].set_ylabel("coverage")
    for panel in axes[-1]:
        panel.set_xlabel("environment steps in thousands")
    lines = {line.get_label(): line for panel in axes.flat for line in panel.get_lines()}
    shown = [name for name in colours if name in lines]
    columns = min(LEGEND_COLUMNS, max(len(shown), 1))
    figure.legend([lines[name] for name in shown], shown, loc="outside lower center", ncols=columns, frameon=False)
    figure.savefig(picture, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=Path("docs/results/tables"), help="folder of the JSON files")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/explorers.png"))
    options = parser.parse_args()
    found = {table: read_rows(Folder(options.tables), table) for table in BUDGETS}
    draw({table: results for table, results in found.items() if results}, options.picture)


if __name__ == "__main__":
    main()

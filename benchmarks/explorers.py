"""The picture of docs/explorers.md: coverage of every explorer against environment steps.

edl tables explorers explorers_million          # measures the curves
python benchmarks/explorers.py                  # draws docs/images/explorers.png
"""

import argparse
from pathlib import Path

from matplotlib import pyplot as plt

from edl.runs.store import Folder
from edl.tables.explorers import BUDGETS, explorers
from edl.tables.make import read_rows
from edl.tables.table import MAZES, Results


def draw(tables: dict[str, Results], picture: Path) -> None:
    """One panel per budget and maze. Lines are means, bands range from the worst seed to the best."""
    colours = dict(zip(explorers(), plt.get_cmap("tab10").colors, strict=False))  # type: ignore[attr-defined]
    figure, axes = plt.subplots(
        len(tables), len(MAZES), figsize=(12, 3.25 * len(tables)), sharey=True, squeeze=False, layout="constrained"
    )
    for row, (table, results) in zip(axes, tables.items(), strict=True):
        for panel, maze in zip(row, MAZES, strict=True):
            panel.set_title(f"{maze}, {BUDGETS[table] // 1000}k steps", fontsize=10)
            panel.set(ylim=(0, 1.02))
            panel.spines[["top", "right"]].set_visible(False)
            for name, colour in colours.items():
                curve = results.get(f"{maze}/{name}", {}).get("measured")
                if curve is not None:
                    steps = [each / 1000 for each in curve["env_steps"]]
                    panel.plot(steps, curve["mean"], "--" if "random" in name else "-", color=colour, label=name)
                    panel.fill_between(steps, curve["low"], curve["high"], alpha=0.15, color=colour, linewidth=0)
        row[0].set_ylabel("coverage")
    for panel in axes[-1]:
        panel.set_xlabel("environment steps in thousands")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(len(labels), 1), frameon=False)
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

"""Draw the learning curves of the table of downstream tasks, which ``edl tables downstream`` measures.

python benchmarks/downstream.py [--table docs/results/tables/downstream.json] [--out docs/images/downstream.png]
"""

import argparse
import json
from pathlib import Path

from edl.figures.downstream import downstream_figure
from edl.figures.style import to_png
from edl.tables.downstream import MAZE, METHODS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=Path("docs/results/tables/downstream.json"))
    parser.add_argument("--out", type=Path, default=Path("docs/images/downstream.png"))
    options = parser.parse_args()
    rows = json.loads(options.table.read_text())["rows"]
    found = {name: rows[name]["measured"] for name in reversed(METHODS) if "measured" in rows.get(name, {})}
    options.out.write_bytes(to_png(downstream_figure(found, f"Sparse goals in {MAZE}")))


if __name__ == "__main__":
    main()

"""Draw floor coverage over steps and over time, from the table that ``edl tables robots`` measures.

python benchmarks/robots.py [--env ant] [--table docs/results/tables/robots.json] [--out docs/images/robots_ant.png]
"""

import argparse
import json
from pathlib import Path

import numpy as np

from edl.figures.robots import coverage_figure
from edl.figures.style import to_png
from edl.tables.robots import LABELS, found_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ant")
    parser.add_argument("--table", type=Path, default=Path("docs/results/tables/robots.json"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = found_in(json.loads(options.table.read_text())["rows"], options.env)
    curves = {LABELS[method].replace("`", ""): each["curve"] for method, each in found.items() if each["curve"]}
    random = float(np.mean([each["mean"]["floor.random_floor_coverage"] for each in found.values()]))
    out = options.out or Path(f"docs/images/robots_{options.env}.png")
    out.write_bytes(to_png(coverage_figure(curves, random, f"Floor coverage, {options.env}")))


if __name__ == "__main__":
    main()

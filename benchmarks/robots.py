"""Draw floor coverage over steps and over time, from the table that ``edl tables robots`` measures.

python benchmarks/robots.py [--env ant] [--table docs/results/tables/robots.json] [--out docs/images/robots_ant.png]
"""

import argparse
import json
from pathlib import Path

import numpy as np

from edl.figures.robots import coverage_figure
from edl.figures.style import to_png
from edl.tables.robots import LABELS, ROBOTS, found_in

RANDOM = "floor.random_floor_coverage"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ant")
    parser.add_argument("--table", type=Path, default=Path("docs/results/tables/robots.json"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = found_in(json.loads(options.table.read_text())["rows"], options.env) if options.env in ROBOTS else {}
    if not any(RANDOM in each["mean"] for each in found.values()):
        parser.error(
            f"{options.table} has no floor coverage in env {options.env!r}. Only robots in the open have any; a maze "
            "has rooms, which `edl tables robots` lists."
        )
    curves = {LABELS[method].replace("`", ""): each["curve"] for method, each in found.items() if each["curve"]}
    random = float(np.mean([each["mean"][RANDOM] for each in found.values()]))
    out = options.out or Path(f"docs/images/robots_{options.env}.png")
    out.write_bytes(to_png(coverage_figure(curves, random, f"Floor coverage, {options.env}")))


if __name__ == "__main__":
    main()

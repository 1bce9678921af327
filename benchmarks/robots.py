"""Draw floor coverage over steps and over time, from the table that ``edl tables robots`` measures.

python benchmarks/robots.py [--env ant] [--table docs/results/tables/robots.json] [--out docs/images/robots_ant.png]

``--curve LABEL=FILE`` adds the curve of an unfinished row, and ``--methods`` restricts the rows of the table.
``--steps`` and ``--seconds`` print the mean over seeds of every curve after so many of them.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edl.figures.robots import coverage_figure
from edl.figures.style import to_png
from edl.tables.markdown import NONE
from edl.tables.robots import LABELS, ROBOTS, SHARED, at, found_in

RANDOM = "floor.random_floor_coverage"


def curves_of(method: str, result: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The curve of a method without the exploration that it shares, and that of an explorer that is told directions."""
    label = LABELS[method].replace("`", "") + (f"\n({SHARED})" if result.get("shared_gpu") else "")
    directions = LABELS[method].replace("`", "").replace("told goals", "told directions")
    shared = result["steps"].get("explore", 0) if "learn" in result["steps"] else 0
    curve = [point for point in result["curve"] if point["env_steps"] > shared]
    return with_directions(curve, label, directions)


def with_directions(curve: list[dict[str, Any]], label: str, directions: str) -> dict[str, list[dict[str, Any]]]:
    """A curve and, if the policy was also told directions, a second one; none if the curve is empty."""
    if not curve:
        return {}
    if "directions" not in curve[0]:
        return {label: curve}
    return {label: curve, directions: [{**point, "floor_coverage": point["directions"]} for point in curve]}


def print_means(curves: Mapping[str, list[dict[str, Any]]], axis: str, places: list[float]) -> None:
    """The mean floor coverage of every curve at these numbers of steps or seconds, between two of its points."""
    for label, curve in curves.items():
        means = [at(curve, axis, place) for place in places]
        cells = [
            f"{place:,.0f}: {NONE if mean is None else f'{mean:,.0f}'}"
            for place, mean in zip(places, means, strict=True)
        ]
        print(f"{' '.join(label.split())}, cells by {axis}:  {';  '.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ant")
    parser.add_argument("--table", type=Path, default=Path("docs/results/tables/robots.json"))
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--curve", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--steps", type=float, nargs="+", default=[])
    parser.add_argument("--seconds", type=float, nargs="+", default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = found_in(json.loads(options.table.read_text())["rows"], options.env) if options.env in ROBOTS else {}
    if not any(RANDOM in each["mean"] for each in found.values()):
        parser.error(
            f"{options.table} has no floor coverage in env {options.env!r}. Only robots in the open have any; a maze "
            "has rooms, which `edl tables robots` lists."
        )
    chosen = {method: each for method, each in found.items() if options.methods is None or method in options.methods}
    curves = {label: curve for method, each in chosen.items() for label, curve in curves_of(method, each).items()}
    for label, file in (each.split("=", 1) for each in options.curve):
        curve = json.loads(Path(file).read_text())["curve"]
        curves |= with_directions(curve, f"{label}, told goals", f"{label}, told directions")
    for axis, places in (("env_steps", options.steps), ("seconds", options.seconds)):
        if places:
            print_means(curves, axis, places)
    random = float(np.mean([each["mean"][RANDOM] for each in found.values()]))
    out = options.out or Path(f"docs/images/robots_{options.env}.png")
    out.write_bytes(to_png(coverage_figure(curves, random, f"Floor coverage, {options.env}")))


if __name__ == "__main__":
    main()

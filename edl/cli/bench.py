"""``edl bench``: how fast this machine does what, beside other libraries."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from edl.runtime import threefry
from edl.bench import bench as benches
from edl.bench.bench import PARTS, Found
from edl.runs.store import plain

ABOUT = "Steps and updates a second, time to quality, memory; contestants take turns. Medians, and spread."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    only: str = ""
    """Parts, with commas between them: env, train, updates, peers, quality."""
    quick: bool = False
    """Few rounds and small programs: to see that it works."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where to write the figures as JSON."""


def bench(words: list[str]) -> int:
    """Measure, print a table, and write JSON."""
    parts = "; ".join(f"{name}: {about}" for name, about in PARTS.items())
    parsed = tyro.cli(Options, args=words, prog="edl bench", description=f"{ABOUT} Parts are {parts}.")
    threefry.enable()
    screen = Console(soft_wrap=False)
    only = [name.strip() for name in parsed.only.split(",") if name.strip()]
    found = benches.bench(only, parsed.quick, lambda line: screen.print(line, style="dim", highlight=False))
    show(screen, found)
    if parsed.out is not None:
        parsed.out.write_text(json.dumps(as_json(found), indent=2) + "\n")
    return 0


def show(screen: Console, found: Found) -> None:
    """The table, then time to quality, the roofline, and what was left out."""
    table = Table(title=found.device, title_justify="left")
    for name in ("", "median", "spread", "per CPU second", "compile", "memory"):
        table.add_column(name, justify="left" if not name else "right")
    for row in found.rows:
        memory = "-" if row.memory is None else f"{row.memory / 2**20:,.0f} MiB"
        rate, spread = f"{row.rate:,.0f} {row.unit}", f"{100 * row.spread / row.rate:.0f} %"
        table.add_row(row.name, rate, spread, f"{row.cpu_rate:,.0f}", f"{row.compile_seconds:.1f} s", memory)
    screen.print(table)
    for each in found.quality:
        verdict = f"goal_success {each.goal_success:.2f} ({'at least' if each.reached else 'short of'} {each.target})"
        took = f"{each.seconds:.1f} s, of which {each.compile_seconds:.1f} s compile"
        screen.print(f"{each.env}, {each.cache} cache: {took}, {verdict}", highlight=False)
    for line in (found.roofline, f"peak memory: {found.peak_memory / 2**20:,.0f} MiB", *found.notes):
        if line:
            screen.print(line, highlight=False, markup=False, soft_wrap=True)


def as_json(found: Found) -> dict:
    """All figures."""
    rows, quality = [row._asdict() for row in found.rows], [each._asdict() for each in found.quality]
    return plain({**found._asdict(), "rows": rows, "quality": quality})

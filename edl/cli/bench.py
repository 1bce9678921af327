"""``edl bench``: the speed of this machine and of other libraries, measured in the same rounds."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import jax
import tyro
from jax.experimental.compilation_cache import compilation_cache
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edl.bench.bench import PARTS, BenchResult, bench
from edl.cli.console import new_console, print_line
from edl.runs.store import check_writable, plain, write_file

ABOUT = "Measure steps and updates per second, time to quality, and memory: medians and spread over rounds."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl bench``."""

    only: Annotated[str, tyro.conf.arg(metavar="PARTS")] = ""
    """Parts to measure, separated by commas. All but robots by default."""
    quick: bool = False
    """Use few rounds and small programs, to see that the benchmark works."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the results as JSON to this file."""


def main(words: list[str]) -> int:
    parts = "; ".join(f"{name}: {about}" for name, about in PARTS.items())
    options = tyro.cli(Options, args=words, prog="edl bench", description=f"{ABOUT} Parts: {parts}.")
    console = new_console()
    if options.out is not None:
        check_writable(options.out)
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    with without_compile_cache():
        result = bench(only, options.quick, lambda line: console.print(line, style="dim"))
    print_result(console, result)
    if options.out is not None:
        write_file(options.out, (json.dumps(as_json(result), indent=2) + "\n").encode())
    return 0


@contextlib.contextmanager
def without_compile_cache() -> Iterator[None]:
    """Turn the compile cache off, because the table says how long compiling takes."""
    name = "jax_enable_compilation_cache"
    before = getattr(jax.config, name)
    jax.config.update(name, False)
    compilation_cache.reset_cache()  # JAX reads the setting once
    try:
        yield
    finally:
        jax.config.update(name, before)
        compilation_cache.reset_cache()


def print_result(console: Console, result: BenchResult) -> None:
    """Print the table, the time to quality, the roofline, and what was left out."""
    table = Table(title=Text(result.device, style="italic"), title_justify="left")
    for name in ("", "median", "spread", "per CPU second", "compile", "memory"):
        table.add_column(name, justify="left" if not name else "right")
    for row in result.rows:
        memory = "-" if row.memory is None else f"{row.memory / 2**20:,.0f} MiB"
        rate, spread = f"{row.rate:,.0f} {row.unit}", f"{100 * row.spread / row.rate:.0f} %"
        table.add_row(row.name, rate, spread, f"{row.cpu_rate:,.0f}", f"{row.compile_seconds:.1f} s", memory)
    console.print(table)
    for each in result.quality:
        verdict = "reached" if each.reached else "missed"
        print_line(
            console,
            f"{each.env}, {each.cache} cache: {each.seconds:.1f} s ({each.compile_seconds:.1f} s of them compile), "
            f"goal_success {each.goal_success:.2f}, {verdict} the target {each.target}",
        )
    for line in (result.roofline, f"peak memory: {result.peak_memory / 2**20:,.0f} MiB", *result.notes):
        if line:
            print_line(console, line)


def as_json(result: BenchResult) -> dict:
    rows, quality = [row._asdict() for row in result.rows], [each._asdict() for each in result.quality]
    return plain({**result._asdict(), "rows": rows, "quality": quality})

"""Contestants that take turns, and the rates computed from their times."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Contestant(NamedTuple):
    """``go()`` does ``amount`` of work in this unit. Its first call, which may compile, is timed separately.

    ``go`` may return `Timed` if the work happens in another process.
    """

    name: str
    unit: str
    amount: float
    go: Callable[[], Any]
    flop: float | None = None
    """Floating-point operations per call, if known."""
    memory: int | None = None
    """Peak memory of a call in bytes, as the compiler reports it."""
    compile_seconds: float = 0.0
    """Seconds spent before the first call."""


class Row(NamedTuple):
    """One row of the table: the median ``rate`` over rounds, and half the interquartile range."""

    name: str
    unit: str
    rate: float
    spread: float
    cpu_rate: float
    """Rate per second of processor time, summed over threads: it does not depend on other programs."""
    compile_seconds: float
    flops: float | None = None
    memory: int | None = None


def warm_up(each: Contestant) -> Contestant:
    """Call ``go`` once, which may compile, and count the time as compile time."""
    return each._replace(compile_seconds=each.compile_seconds + clock(each.go).wall)


def race(contestants: list[Contestant], rounds: int) -> list[Row]:
    """Call every contestant once per round, in turn."""
    times: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contestants}
    for _ in range(rounds):
        for each in contestants:
            times[each.name].append(clock(each.go))
    return [_row(each, times[each.name]) for each in contestants]


class Timed(NamedTuple):
    """Seconds of a call that was timed in the process that did the work."""

    wall: float
    cpu: float


def clock(go: Callable[[], Any]) -> Timed:
    """Call ``go`` and wait for its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(go())
    return result if isinstance(result, Timed) else Timed(time.perf_counter() - wall, time.process_time() - cpu)


def _row(each: Contestant, times: list[tuple[float, float]]) -> Row:
    rates = sorted(each.amount / wall for wall, _ in times)
    quarter = len(rates) // 4
    middle = rates[quarter : len(rates) - quarter]
    rate = statistics.median(rates)
    cpu = each.amount / max(statistics.median(cpu for _, cpu in times), 1e-9)
    seconds = each.amount / rate
    flops = None if each.flop is None else each.flop / seconds
    spread = (middle[-1] - middle[0]) / 2
    return Row(each.name, each.unit, rate, spread, cpu, max(each.compile_seconds - seconds, 0.0), flops, each.memory)

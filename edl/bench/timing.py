"""Contestants that take turns, and what their times say."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Contestant(NamedTuple):
    """``go()`` does ``amount`` of work, counted in this unit. Its first call, which may compile, is kept apart."""

    name: str
    unit: str
    amount: float
    go: Callable[[], Any]
    flop: float | None = None
    """Floating-point operations in one call, if they were counted."""
    memory: int | None = None
    """Bytes that the compiler says one call needs at its peak."""
    compile_seconds: float = 0.0
    """What was spent before the first call."""


class Row(NamedTuple):
    """One line of the table: the median of ``rate`` over rounds, and half the range of the middle half of them."""

    name: str
    unit: str
    rate: float
    spread: float
    cpu_rate: float
    """Per second of processor time, all threads together: what is left if other programs take turns too."""
    compile_seconds: float
    flops: float | None = None
    memory: int | None = None


def warm_up(each: Contestant) -> Contestant:
    """Go once, which may compile or fail, and count that as compilation."""
    return each._replace(compile_seconds=each.compile_seconds + _clock(each.go)[0])


def race(contestants: list[Contestant], rounds: int) -> list[Row]:
    """Everyone, warmed up, goes once in every round, in turn."""
    times: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contestants}
    for _ in range(rounds):
        for each in contestants:
            times[each.name].append(_clock(each.go))
    return [_row(each, times[each.name]) for each in contestants]


def _clock(go: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(go())
    return time.perf_counter() - wall, time.process_time() - cpu


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

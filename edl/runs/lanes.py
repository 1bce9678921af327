"""Some work for many lanes (a lane is a point of a grid and a seed): as wide as memory allows, on all devices.

Lanes go through in equal parts, so that one program is compiled for all of them; the last part is filled up with
repetitions, which are dropped.
"""

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, PyTree

from edl.runs import driver
from edl.runs.driver import Tick, Work
from edl.types import Keys

SHARE = 0.8
"""Of the free memory of a device, so much is used."""
HOST_SHARE = 0.5


class Lanes(NamedTuple):
    """The results of all lanes, on the host, with the rows of their log and the time they took."""

    artifact: PyTree
    rows: list[dict[str, Any]]
    iterations: int
    env_steps: int
    seconds: float
    compile_seconds: float
    width: int


Watch = Callable[[Tick, int, int, int], None]
"""Told of every tick: which part it is of, of how many, and how many lanes that has."""


def mesh_of(devices: Sequence[Any] | None = None) -> Mesh | None:
    """All devices in a row, or None if there is only one."""
    devices = jax.devices() if devices is None else devices
    return Mesh(np.array(devices), ("lanes",)) if len(devices) > 1 else None


def run(work: Work, keys: Keys, mesh: Mesh | None, wait: driver.Wait, watch: Watch, most: int | None = None) -> Lanes:
    """Run some work for every key. ``most`` lanes at a time, if there is a reason to take fewer than memory allows."""
    total = keys.shape[0]
    work = work._replace(mesh=mesh)
    began = time.perf_counter()
    width = wait(lambda: fitting(work, keys, min(total, most or total)))
    spent_fitting = time.perf_counter() - began
    parts = math.ceil(total / width)
    results, logs, compiling, facts = [], [], spent_fitting, driver.outline(some(work, [0] * width), width)
    for part in range(parts):
        chosen = np.minimum(np.arange(part * width, (part + 1) * width), total - 1)
        here, rows, position = some(work, chosen), [], None
        for tick in driver.advance(here, keys[jnp.asarray(chosen)], None, wait):
            position = tick.position
            if tick.row is not None:
                rows.append({"iteration": position.iteration, **tick.row})
            if tick.done:
                compiling += tick.compile_seconds
            watch(tick, part, parts, width)
        assert position is not None  # every program has at least one iteration
        results.append(jax.device_get(driver.finish(here, position, width, wait)))
        logs.append(rows)
    artifact = jax.tree.map(lambda *parts: np.concatenate(parts)[:total], *results)
    spent = time.perf_counter() - began
    rows = joined(logs, total)
    iterations = max(rows[-1]["iteration"] if rows else 0, 1)
    return Lanes(artifact, rows, iterations, facts.env_steps, spent - compiling, compiling, width)


def some(work: Work, chosen: Int[np.ndarray, " w"] | list[int]) -> Work:
    """The same work for some lanes."""
    index = np.asarray(chosen)
    pairs = zip(work.inputs, work.per_seed, strict=True)
    inputs = (jax.tree.map(lambda leaf: leaf[index], each) if own else each for each, own in pairs)
    return work._replace(inputs=tuple(inputs))


def fitting(work: Work, keys: Keys, width: int) -> int:
    """The widest part that fits in memory, a multiple of the devices; equal parts of all lanes if it takes several."""
    devices = 1 if work.mesh is None else work.mesh.size
    width = devices * math.ceil(width / devices)
    total = keys.shape[0]
    while width > devices:
        needed, free = memory(work, keys, width), free_memory(devices)
        if needed <= free:
            break
        smaller = max(int(width * free / needed) // devices, 1) * devices
        parts = math.ceil(total / min(smaller, width - devices))
        width = devices * math.ceil(total / parts / devices)
    return width


def memory(work: Work, keys: Keys, width: int) -> int:
    """Bytes that a device needs for so many lanes, by the compiler's own account."""
    here = driver.deal_out(some(work, [0] * width))
    facts = driver.outline(here, width)
    shape = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (width, facts.iterations)))
    told = driver.compile_piece(here, facts, driver.on_devices(work.mesh, shape)).memory_analysis()
    if told is None:
        return 0
    return int(told.temp_size_in_bytes + told.argument_size_in_bytes + told.output_size_in_bytes)


def free_memory(devices: int) -> int:
    """Bytes that one device may use."""
    told = jax.local_devices()[0].memory_stats()
    if told and "bytes_limit" in told:
        return int(SHARE * (told["bytes_limit"] - told.get("bytes_in_use", 0)))
    return int(HOST_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / devices)


def joined(logs: list[list[dict[str, Any]]], total: int) -> list[dict[str, Any]]:
    """The logs of all parts as one; a part that ended early keeps its last row."""
    longest = max(logs, key=len)
    rows = []
    for i, row in enumerate(longest):
        parts = [log[min(i, len(log) - 1)] for log in logs]
        values = {name: np.concatenate([part[name] for part in parts])[:total] for name in row if name != "iteration"}
        rows.append({"iteration": row["iteration"], **values})
    return rows

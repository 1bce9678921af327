"""Run some work for many lanes: as many at a time as memory allows, on all devices.

A lane is one seed of one point of a sweep. Lanes run in batches of equal size, so that one program is compiled for all;
the last batch repeats its last lane, and the repetitions are dropped.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, PyTree

from edl.runs.driver import (
    RunInterruptible,
    Tick,
    Work,
    advance,
    compile_chunk,
    finish,
    first_lanes,
    outline,
    padded_size,
    place_on_devices,
    prepare,
)
from edl.types import Keys

DEVICE_SHARE = 0.8
"""Share of a device's free memory that a batch may use."""
HOST_SHARE = 0.5


class LaneBatch(NamedTuple):
    """The results of some lanes, on the host, with the rows of their log and the time they took."""

    lanes: Int[np.ndarray, " w"]
    artifact: PyTree
    rows: list[dict[str, Any]]
    iterations: int
    env_steps: int
    seconds: float
    compile_seconds: float


OnTick = Callable[[Tick, int, int, int], None]
"""Receives every tick, the number of its batch, the number of batches, and the lanes per batch."""


def run_lanes(
    work: Work,
    keys: Keys,
    *,
    mesh: Mesh | None,
    run_interruptible: RunInterruptible,
    on_tick: OnTick,
    max_lanes: int | None = None,
) -> Iterator[LaneBatch]:
    """Run some work for every key, batch by batch. ``max_lanes`` and memory limit the size of a batch."""
    total, began = keys.shape[0], time.perf_counter()
    width = run_interruptible(lambda: fitting_width(work, keys, min(total, max_lanes or total), mesh))
    batches = math.ceil(total / width)
    for batch in range(batches):
        chosen = np.minimum(np.arange(batch * width, (batch + 1) * width), total - 1)
        selected, rows, position, compile_seconds = select_lanes(work, chosen), [], None, 0.0
        compiled = time.perf_counter() - began  # for the first batch, finding the width compiled its program
        env_steps = outline(selected, width).env_steps
        for tick in advance(selected, keys[jnp.asarray(chosen)], mesh=mesh, run_interruptible=run_interruptible):
            position, compile_seconds = tick.position, tick.compile_seconds
            if tick.row is not None:
                rows.append({"iteration": position.iteration, **tick.row})
            on_tick(tick, batch, batches, width)
        assert position is not None  # every program has at least one iteration
        artifact = jax.device_get(finish(selected, position, width, mesh=mesh))
        real = np.unique(chosen)
        artifact = first_lanes(artifact, len(real))
        rows = [{name: v if name == "iteration" else v[: len(real)] for name, v in row.items()} for row in rows]
        compile_seconds += compiled
        spent = time.perf_counter() - began - compile_seconds
        yield LaneBatch(real, artifact, rows, position.iteration, env_steps, spent, compile_seconds)
        began = time.perf_counter()


def select_lanes(work: Work, chosen: Int[np.ndarray, " w"]) -> Work:
    """The same work for some of its lanes."""
    pairs = zip(work.inputs, work.per_lane, strict=True)
    inputs = (jax.tree.map(lambda leaf: leaf[chosen], each) if per_lane else each for each, per_lane in pairs)
    return work._replace(inputs=tuple(inputs))


def fitting_width(work: Work, keys: Keys, width: int, mesh: Mesh | None) -> int:
    """The largest batch that fits in memory, a multiple of the devices; all batches are about equally large."""
    devices = 1 if mesh is None else mesh.size
    width, total = padded_size(width, mesh), keys.shape[0]
    while width > devices:
        needed, free = needed_memory(work, width, mesh), free_memory(devices)
        if needed <= free:
            break
        smaller = max(int(width * free / needed) // devices, 1) * devices
        batches = math.ceil(total / min(smaller, width - devices))
        width = devices * math.ceil(total / batches / devices)
    return min(width, total) if mesh is None else width


def needed_memory(work: Work, width: int, mesh: Mesh | None) -> int:
    """Bytes that a device needs for so many lanes, as the compiler reports them."""
    facts, _, placed = prepare(select_lanes(work, np.zeros(width, int)), width, mesh)
    shape = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (width, facts.iterations)))
    analysis = compile_chunk(placed, facts, place_on_devices(mesh, shape), mesh).memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes)


def free_memory(devices: int) -> int:
    """Bytes that one device may use."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(DEVICE_SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0)))
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"  # macOS has no free count
    return int(HOST_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages) / devices)

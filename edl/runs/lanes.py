"""Run some work for many lanes: as many at a time as memory allows, on all devices.

A lane is one seed of one point of a sweep. A `LanePlacement` says which lanes run side by side on which device. The
program of a device has a fixed number of lanes, and a lane has a fixed place in it: on a CPU, the last bits of a result
can depend on both. So the same placement gives the same bits in any process, after any interruption.

Out of memory: the batch is split in half and the work goes on. An env that raises an error fails alone: the batch is
split until the lane is found.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, PyTree

from edl.config import ConfigError
from edl.envs.host import EnvError
from edl.runs.driver import (
    Outline,
    Position,
    RunInterruptible,
    Tick,
    Work,
    advance,
    compile_chunk,
    finish,
    outline,
    padded_size,
    place_on_devices,
    prepare,
)
from edl.types import Keys

DEVICE_SHARE = 0.8
"""Share of a device's free memory that a batch may use."""
HOST_SHARE = 0.5
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")
"""Words in the errors of XLA if an allocation fails."""


class LanePlacement(NamedTuple):
    """One block of lanes per device. Every block is filled to ``width`` lanes by repeating its last lane."""

    blocks: tuple[Int[np.ndarray, " n"], ...]
    width: int

    def batch(self, start: int, width: int) -> Int[np.ndarray, " w"]:
        """The lanes at ``width`` places of every block from ``start`` on, device by device."""
        places = np.arange(start, start + width)
        return np.concatenate([block[np.minimum(places, len(block) - 1)] for block in self.blocks])


def even_placement(total: int, devices: int) -> LanePlacement:
    """All lanes, spread evenly over the devices."""
    width = math.ceil(total / devices)
    blocks = tuple(np.minimum(np.arange(i * width, (i + 1) * width), total - 1) for i in range(devices))
    return LanePlacement(blocks, width)


class Spent(NamedTuple):
    """Wall-clock seconds of some work, and those that went into compiling."""

    seconds: float = 0.0
    compile_seconds: float = 0.0

    def plus(self, seconds: float, compile_seconds: float) -> "Spent":
        return Spent(self.seconds + seconds, self.compile_seconds + compile_seconds)


class SavedBatch(NamedTuple):
    """A batch as an earlier process left it: its position, the rows of its log, and the time it had taken."""

    position: Position
    rows: list[dict[str, Any]]
    spent: Spent


class LaneBatch(NamedTuple):
    """The results of some lanes, on the host, with the rows of their log and the wall-clock time they took.

    The lanes ran side by side on so many ``devices``. ``earlier`` is the time that earlier processes spent on them;
    `run_lanes` adds it to the other two. ``error`` is the message of an env that failed; the batch then has one lane,
    and its artifact is NaN.
    """

    lanes: Int[np.ndarray, " w"]
    artifact: PyTree
    rows: list[dict[str, Any]]
    iterations: int
    env_steps: int
    seconds: float
    compile_seconds: float
    error: str | None = None
    devices: int = 1
    earlier: Spent = Spent()

    def share(self, lanes: int) -> float:
        """The share of so many of its lanes in the time of their device. Those on several devices have all of it."""
        return min(lanes * self.devices / len(self.lanes), 1.0)


OnTick = Callable[[Tick, int, int, int], None]
"""Receives every tick, the number of its batch, the number of batches, and the lanes per batch."""


@runtime_checkable
class LaneCheckpoints(Protocol):
    """Keeps the position of a batch while it runs. ``lanes`` and the program identify the batch."""

    def load(self, lanes: Int[np.ndarray, " w"], facts: Outline) -> SavedBatch | None:
        """The last position, the rows of the log up to it, and the time spent."""

    def after_tick(self, lanes: Int[np.ndarray, " w"], tick: Tick, rows: list[dict[str, Any]]) -> None:
        """Save the position if it is time."""


class NoCheckpoints:
    """Saves nothing: an interrupted batch starts again."""

    def load(self, lanes: Int[np.ndarray, " w"], facts: Outline) -> None:
        return None

    def after_tick(self, lanes: Int[np.ndarray, " w"], tick: Tick, rows: list[dict[str, Any]]) -> None: ...


class LaneRunner(NamedTuple):
    """How lanes run. ``max_lanes`` and memory limit how many run at a time."""

    mesh: Mesh | None
    run_interruptible: RunInterruptible
    on_tick: OnTick
    max_lanes: int | None = None
    checkpoints: LaneCheckpoints = NoCheckpoints()


def run_lanes(work: Work, keys: Keys, placement: LanePlacement, runner: LaneRunner) -> Iterator[LaneBatch]:
    """Run some work for every key, batch by batch."""
    devices, began = len(placement.blocks), time.perf_counter()
    every = keys[jnp.asarray(placement.batch(0, placement.width))]
    most = min(len(every), runner.max_lanes or len(every))
    width = runner.run_interruptible(lambda: fitting_width(work, every, most, runner.mesh)) // devices
    compiled = time.perf_counter() - began  # finding the width has compiled the program
    start, batch = 0, 0
    while start < placement.width:
        batches = batch + math.ceil((placement.width - start) / width)
        try:
            for found in run_isolated(work, keys, placement.batch(start, width), runner, (batch, batches)):
                compile_seconds = found.compile_seconds + compiled
                seconds = max(time.perf_counter() - began - compile_seconds, 0.0)
                spent = found.earlier.plus(seconds, compile_seconds)
                yield found._replace(seconds=spent.seconds, compile_seconds=spent.compile_seconds)
                began, compiled = time.perf_counter(), 0.0
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if width == 1:
                raise ConfigError(f"one lane does not fit into the memory of a device ({error}).") from error
            width = math.ceil(width / 2)
            continue
        start, batch = start + width, batch + 1


def run_isolated(
    work: Work, keys: Keys, chosen: Int[np.ndarray, " w"], runner: LaneRunner, number: tuple[int, int]
) -> list[LaneBatch]:
    """The results of a batch. If an env fails, its halves run again, until the lanes that fail are alone."""
    try:
        return [run_batch(work, keys, chosen, runner, number)]
    except EnvError as error:
        real = np.unique(chosen)
        if len(real) == 1:
            return [failed_batch(work, int(real[0]), str(error))]
    found = []
    for half in np.array_split(real, 2):
        filled = half[np.minimum(np.arange(len(chosen)), len(half) - 1)]
        found += run_isolated(work, keys, filled, runner, number)
    return found


def run_batch(
    work: Work, keys: Keys, chosen: Int[np.ndarray, " w"], runner: LaneRunner, number: tuple[int, int]
) -> LaneBatch:
    """Run the chosen lanes together. Lanes that are chosen twice only fill the program."""
    width, mesh = len(chosen), runner.mesh
    selected, position, compile_seconds = select_lanes(work, chosen), None, 0.0
    facts = outline(selected, width)
    saved = runner.checkpoints.load(chosen, facts)
    start, rows, earlier = saved or (None, [], Spent())
    for tick in advance(
        selected, keys[jnp.asarray(chosen)], start, mesh=mesh, run_interruptible=runner.run_interruptible
    ):
        position, compile_seconds = tick.position, tick.compile_seconds
        if tick.row is not None:
            rows.append({"iteration": position.iteration, **tick.row})
        runner.checkpoints.after_tick(chosen, tick, rows)
        runner.on_tick(tick, *number, width)
    assert position is not None  # every program has at least one iteration, and no checkpoint follows the last one
    artifact = jax.device_get(finish(selected, position, width, mesh=mesh))
    lanes, places = np.unique(chosen, return_index=True)
    artifact = jax.tree.map(lambda leaf: leaf[places], artifact)
    rows = [{name: v if name == "iteration" else v[places] for name, v in row.items()} for row in rows]
    devices = 1 if mesh is None else mesh.size
    return LaneBatch(
        lanes,
        artifact,
        rows,
        position.iteration,
        facts.env_steps,
        0.0,
        compile_seconds,
        devices=devices,
        earlier=earlier,
    )


def failed_batch(work: Work, lane: int, message: str) -> LaneBatch:
    """The result of a lane whose env failed: NaN in every array that can hold it."""
    facts = outline(select_lanes(work, np.array([lane])), 1)
    nan = lambda leaf: np.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0  # noqa: E731
    artifact = jax.tree.map(lambda leaf: np.full(leaf.shape, nan(leaf), leaf.dtype), facts.artifact)
    return LaneBatch(np.array([lane]), artifact, [], 0, facts.env_steps, 0.0, 0.0, message)


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
    return program_memory(select_lanes(work, np.zeros(width, int)), width, mesh)


def program_memory(work: Work, lanes: int, mesh: Mesh | None) -> int:
    """Bytes that a device needs for work with this number of lanes, whose inputs may be shapes."""
    facts, _, placed = prepare(work, lanes, mesh)
    shape = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (lanes, facts.iterations)))
    analysis = compile_chunk(placed, facts, place_on_devices(mesh, shape), mesh).memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def free_memory(devices: int) -> int:
    """Bytes that each of so many devices may use. A thread with a default device runs on it, beside other threads."""
    own = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]  JAX adds it at run time
    used = [own] if isinstance(own, jax.Device) else jax.local_devices()[:devices]
    stats = [each.memory_stats() or {} for each in used]
    if all("bytes_limit" in each for each in stats):
        return int(DEVICE_SHARE * min(each["bytes_limit"] - each.get("bytes_in_use", 0) for each in stats))
    sharing = devices if own is None else jax.local_device_count()
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"  # macOS has no free count
    return int(HOST_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages) / sharing)

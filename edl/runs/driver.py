"""Run a `Program` for many lanes as one vmapped, compiled program, in chunks, on one or many devices.

A lane is one seed of one run. A chunk is a loop from iteration ``start`` to ``stop``; both are arguments of one
compiled function, so that a chunk can last about half a second whatever an iteration costs, and the result does not
depend on where the chunks end. That makes resuming bit-for-bit. Everything that must not depend on timing (the rows of
the log, the early end of a stage) happens at fixed iterations.

Lanes are sharded evenly over the devices of a mesh, and no two devices ever communicate. If their number is not
divisible, the last lane is repeated; the repetitions are dropped from everything that leaves this module.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from edl.envs.host import check_hosts, hosts_of
from edl.envs.mjx.divergence import check_physics
from edl.program import Program, program_keys
from edl.runs.executables import as_arrays, executable, from_signature, signature
from edl.runtime.effort import Effort, quick_jit
from edl.types import Key, Keys

ROWS = 100
"""Rows of the log per stage (fewer if it has fewer iterations)."""
CHUNK_SECONDS = 0.5
LANES = "lanes"
"""Name of the mesh axis over which lanes are sharded."""
STATE_ARGUMENT = 1
"""Position of the state among the arguments of a chunk; its buffers are donated."""
Builder = Callable[..., Program]
RunInterruptible = Callable[[Callable[[], Any]], Any]
"""Calls a function that may block for long: see `edl.runs.interrupt`."""


class Work(NamedTuple):
    """A program to build and run: ``build(*inputs)``, for one lane.

    ``build`` is hashable and identifies the compiled program: pass a module-level function or a frozen dataclass, not a
    closure. Inputs marked in ``per_lane`` have a leading axis of lanes; the others are shared by all lanes.
    """

    build: Builder
    inputs: tuple[PyTree, ...]
    per_lane: tuple[bool, ...]
    effort: Effort = Effort.FULL


class Outline(NamedTuple):
    """Facts about a program that has not run: its length, and the shapes of its state and its artifact."""

    iterations: int
    env_steps: int
    state: PyTree
    artifact: PyTree

    @property
    def effort_around(self) -> Effort:
        """Compile effort for ``init`` and ``finish``, which run once: little, unless they are the whole program."""
        return Effort.LEAST if self.iterations > 1 else Effort.FULL


class Position(NamedTuple):
    """How far a program has come: the contents of a checkpoint.

    ``sums`` are the sums of the metrics since the last row of the log.
    """

    iteration: int
    state: PyTree
    sums: dict[str, Float[np.ndarray, " lanes"]]

    def trimmed(self, lanes: int) -> "Position":
        """The same position without the lanes that were added to fill the devices."""
        return self._replace(state=first_lanes(self.state, lanes))


class Tick(NamedTuple):
    """The end of a chunk. ``metrics`` are means over the chunk; ``row`` is set at the end of a row of the log.

    ``done`` marks the last tick. ``rate`` is in iterations per second; ``compile_seconds`` passed before the first
    tick.
    """

    position: Position
    metrics: dict[str, Float[np.ndarray, " lanes"]]
    row: dict[str, Float[np.ndarray, " lanes"]] | None
    done: bool
    rate: float
    compile_seconds: float


def call(function: Callable[[], Any]) -> Any:
    return function()


def lane_mesh(lanes: int, inputs: PyTree = (), devices: list[Any] | None = None) -> Mesh | None:
    """The mesh of devices for this number of lanes; None for one device.

    An env outside of JAX is stepped by one host process, for which more devices would have to wait.
    """
    devices = jax.devices() if devices is None else devices
    count = 1 if hosts_of(inputs) else min(len(devices), lanes)
    return Mesh(np.array(devices[:count]), (LANES,)) if count > 1 else None


def lanes_at_a_time(total: int, inputs: PyTree = ()) -> int:
    """How many lanes run side by side, if they fit into memory: all on an accelerator, and one per core on a CPU.

    A core trains one lane faster than several at a time, and the lane ends when its own seed is done. An env outside of
    JAX steps all lanes at once.
    """
    return total if jax.default_backend() != "cpu" or hosts_of(inputs) else min(total, len(jax.devices()))


def outline(work: Work, lanes: int) -> Outline:
    """Trace a program without running it. Its inputs may be shapes."""
    return _outline(work.build, work.per_lane, lanes, *signature(as_arrays(work.inputs)))


@functools.lru_cache(maxsize=64)
def _outline(build: Builder, per_lane: tuple[bool, ...], lanes: int, tree: Any, shapes: tuple) -> Outline:
    facts: list[tuple[int, int]] = []

    def one(inputs: tuple, key: Key) -> tuple[PyTree, PyTree]:
        program = build(*inputs)
        facts.append((program.iterations, program.env_steps))
        state = program.init(key)
        return state, program.finish(state)

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), lanes))
    inputs = from_signature(tree, tuple((shape, dtype, None) for shape, dtype, _ in shapes))
    state, artifact = jax.eval_shape(functools.partial(over_lanes, one, per_lane, lanes, None), inputs, keys)
    return Outline(*facts[0], state, artifact)


def row_length(iterations: int) -> int:
    """Iterations per row of the log."""
    return math.ceil(iterations / ROWS)


def advance(
    work: Work,
    keys: Keys,
    start: Position | None = None,
    *,
    mesh: Mesh | None = None,
    run_interruptible: RunInterruptible = call,
) -> Iterator[Tick]:
    """Run a program from the beginning, or from ``start``, to its end, one chunk at a time, with one key per lane.

    The buffers of a position are reused by the next chunk: save it at once or not at all. A stage ends early if its
    metrics have a ``done`` that is 1 for every lane. A program whose result must not depend on the other lanes has to
    stop changing its state by itself by then.
    """
    lanes = keys.shape[0]
    facts, static, work = prepare(work, lanes, mesh)
    first, rest = quick_jit(_keys_of_programs, "iterations")(pad_lanes(keys, mesh), iterations=facts.iterations)
    first, rest = place_on_devices(mesh, (first, rest))
    began = time.perf_counter()
    run_chunk = run_interruptible(lambda: compile_chunk(work, facts, rest, mesh))
    initialise = run_interruptible(lambda: executable(_init, static, work.inputs, first, effort=facts.effort_around))
    state = place_on_devices(mesh, facts.state)
    # Compiled now, so that its compile time is counted as such.
    run_interruptible(lambda: executable(_finish, static, work.inputs, state, effort=facts.effort_around))
    compile_seconds = time.perf_counter() - began
    if start is None:
        state = run_interruptible(lambda: jax.block_until_ready(initialise(work.inputs, first)))
        start = Position(0, state, {})
        check_hosts(work.inputs)
    else:
        start = start._replace(state=place_on_devices(mesh, pad_lanes(start.state, mesh)))
    yield from _chunks(run_chunk, work.inputs, rest, start, lanes, compile_seconds)


def prepare(work: Work, lanes: int, mesh: Mesh | None) -> tuple[Outline, tuple, Work]:
    """The outline of a program on a mesh, its static arguments, and the work with its inputs on the devices."""
    padded = padded_size(lanes, mesh)
    pairs = list(zip(as_arrays(work.inputs), work.per_lane, strict=True))
    inputs = tuple(place_on_devices(mesh, pad_lanes(x, mesh) if each else x, each) for x, each in pairs)
    placed = work._replace(inputs=inputs)
    return outline(placed, padded), (work.build, work.per_lane, padded, mesh), placed


def _keys_of_programs(keys: Keys, iterations: int) -> tuple[Keys, Keys]:
    return jax.vmap(lambda key: program_keys(key, iterations))(keys)


def finish(work: Work, position: Position, lanes: int, *, mesh: Mesh | None = None) -> PyTree:
    """The artifact of a program that has run to its end. `advance` has compiled it, so Ctrl-C cannot lose the state."""
    facts, static, work = prepare(work, lanes, mesh)
    compiled = executable(_finish, static, work.inputs, position.state, effort=facts.effort_around)
    artifact = jax.block_until_ready(compiled(work.inputs, position.state))
    if mesh is None:
        return artifact
    return jax.device_put(first_lanes(jax.device_get(artifact), lanes), jax.devices()[0])


def compile_chunk(work: Work, facts: Outline, keys: Keys | jax.ShapeDtypeStruct, mesh: Mesh | None) -> Callable:
    """The compiled chunk of `prepare`d work; ``keys`` may be a shape."""
    static = (work.build, work.per_lane, keys.shape[0], mesh)
    args = (work.inputs, place_on_devices(mesh, facts.state), keys, np.int32(0), np.int32(0))
    return executable(_run_chunk, static, *args, donate=STATE_ARGUMENT, effort=work.effort)


def compile_programs(work: Work, lanes: int, mesh: Mesh | None) -> None:
    """Compile everything that `advance` and `finish` will run. The inputs may be shapes."""
    facts, static, work = prepare(work, lanes, mesh)
    padded = padded_size(lanes, mesh)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (padded, facts.iterations)))
    first = jax.eval_shape(lambda keys: keys[:, 0], keys)
    compile_chunk(work, facts, place_on_devices(mesh, keys), mesh)
    around = facts.effort_around
    executable(_init, static, work.inputs, place_on_devices(mesh, first), effort=around)
    executable(_finish, static, work.inputs, place_on_devices(mesh, facts.state), effort=around)


def _chunks(
    run_chunk: Callable, inputs: tuple, keys: Keys, position: Position, lanes: int, compile_seconds: float
) -> Iterator[Tick]:
    """Split the iterations into chunks of about `CHUNK_SECONDS`. A chunk never crosses the end of a row."""
    iterations, size = keys.shape[1], 1
    length = row_length(iterations)
    while position.iteration < iterations:
        begin = position.iteration
        row_end = min((begin // length + 1) * length, iterations)
        end = min(begin + size, row_end)
        started = time.perf_counter()
        state, sums, last = jax.block_until_ready(
            run_chunk(inputs, position.state, keys, np.int32(begin), np.int32(end))
        )
        check_hosts(inputs)
        check_physics(inputs, state, f"between iterations {begin} and {end}")
        rate = (end - begin) / max(time.perf_counter() - started, 1e-6)
        size = max(1, min(4 * (end - begin), int(CHUNK_SECONDS * rate)))
        new = {name: np.asarray(value, np.float64)[:lanes] for name, value in sums.items()}
        total = {name: position.sums.get(name, 0.0) + value for name, value in new.items()}
        row_begin = begin // length * length
        row = {name: value / (end - row_begin) for name, value in total.items()} if end == row_end else None
        position = Position(end, state, {} if row is not None else total)
        done = row is not None and "done" in last and bool(np.all(np.asarray(last["done"]) >= 1))
        metrics = {name: value / (end - begin) for name, value in new.items()}
        yield Tick(position, metrics, row, done or end == iterations, rate, compile_seconds)
        if done:
            return


def _init(
    build: Builder, per_lane: tuple[bool, ...], lanes: int, mesh: Mesh | None, inputs: tuple, keys: Keys
) -> PyTree:
    return over_lanes(lambda inputs, key: build(*inputs).init(key), per_lane, lanes, mesh, inputs, keys)


def _finish(
    build: Builder, per_lane: tuple[bool, ...], lanes: int, mesh: Mesh | None, inputs: tuple, state: PyTree
) -> PyTree:
    return over_lanes(lambda inputs, state: build(*inputs).finish(state), per_lane, lanes, mesh, inputs, state)


def _run_chunk(
    build: Builder,
    per_lane: tuple[bool, ...],
    lanes: int,
    mesh: Mesh | None,
    inputs: tuple,
    state: PyTree,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> tuple[PyTree, dict[str, Array], dict[str, Array]]:
    """Iterations ``start`` to ``stop``: the new state, the sums of the metrics, and the metrics of the last one."""

    def one(inputs: tuple, keys: Keys, state: PyTree) -> tuple:
        *given, start, stop = inputs
        step = jax.jit(build(*given).step)  # jit traces it once for the loop and for the shapes of its metrics
        shapes = jax.eval_shape(step, state, keys[0])[1]
        zeros = {name: jnp.zeros((), jnp.float32) for name in shapes}

        def body(i: Array, carry: tuple) -> tuple:
            state, sums, _ = carry
            state, metrics = step(state, keys[i])
            metrics = {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()}
            return state, {name: sums[name] + metrics[name] for name in sums}, metrics

        return jax.lax.fori_loop(start, stop, body, (state, zeros, zeros))

    return over_lanes(one, (*per_lane, False, False), lanes, mesh, (*inputs, start, stop), keys, state)


def over_lanes(
    one: Callable, per_lane: tuple[bool, ...], lanes: int, mesh: Mesh | None, inputs: tuple, *batched: PyTree
) -> PyTree:
    """Map ``one`` over the lanes, sharded over the mesh.

    A single lane runs without vmap, under which both sides of every branch would be computed.
    """
    if mesh is not None:
        local = functools.partial(over_lanes, one, per_lane, lanes // mesh.size, None)
        specs = (tuple(lane_spec(each) for each in per_lane), *[lane_spec(True)] * len(batched))
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=lane_spec(True), check_vma=False)(
            inputs, *batched
        )
    axes = tuple(0 if each else None for each in per_lane)
    if lanes > 1:
        return jax.vmap(one, in_axes=(axes, *[0] * len(batched)), axis_size=lanes)(inputs, *batched)
    alone = tuple(_only_lane(x) if each else x for x, each in zip(inputs, per_lane, strict=True))
    return jax.tree.map(lambda x: jnp.asarray(x)[None], one(alone, *map(_only_lane, batched)))


def _only_lane(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x[0], tree)


def lane_spec(per_lane: bool) -> PartitionSpec:
    return PartitionSpec(LANES) if per_lane else PartitionSpec()


def place_on_devices(mesh: Mesh | None, tree: PyTree, per_lane: bool = True) -> PyTree:
    """Shard arrays (or their shapes) over the mesh along the axis of lanes, or copy them to every device.

    Arrays without elements are on every device, because that is where compiled programs return them.
    """
    if mesh is None:
        return tree

    def put(leaf: Any) -> Any:
        sharding = NamedSharding(mesh, lane_spec(per_lane and 0 not in leaf.shape))
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        return jax.device_put(leaf, sharding)

    return jax.tree.map(put, tree)


def padded_size(lanes: int, mesh: Mesh | None) -> int:
    """The number of lanes, rounded up to a multiple of the devices."""
    devices = 1 if mesh is None else mesh.size
    return devices * math.ceil(lanes / devices)


def pad_lanes(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Repeat the last lane until the lanes fill the devices evenly."""

    def pad(leaf: Any) -> Any:
        missing = padded_size(leaf.shape[0], mesh) - leaf.shape[0]
        if not missing:
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct((leaf.shape[0] + missing, *leaf.shape[1:]), leaf.dtype)
        return leaf[jnp.minimum(jnp.arange(leaf.shape[0] + missing), leaf.shape[0] - 1)]

    return jax.tree.map(pad, tree)


def first_lanes(tree: PyTree, lanes: int) -> PyTree:
    """Drop the lanes that `pad_lanes` added."""
    return jax.tree.map(lambda leaf: leaf if leaf.shape[0] == lanes else leaf[:lanes], tree)

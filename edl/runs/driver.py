"""Run a `Program` for many seeds as one vmapped, compiled program, in pieces between which the outside may act.

A piece is a loop from iteration ``start`` to ``stop``, both arguments of one compiled function: pieces can therefore
last about half a second whatever an iteration costs, and how the work was cut never shows in its result. That makes
resuming bit-for-bit. What must not depend on timing (the rows of the log, the early end of a stage) happens at fixed
iterations.
"""

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PyTree

from edl.runtime.effort import Effort, quick_jit
from edl.envs.host import check_hosts
from edl.runs.executables import as_arrays, executable, from_signature, signature
from edl.runs.over_seeds import on_devices, one_copy, over_seeds
from edl.program import Program, keys_of
from edl.types import Key, Keys

ROWS = 100
"""Rows of the log in a stage (fewer if it has fewer iterations)."""
PIECE_SECONDS = 0.5
STATE = 1
"""Which argument of a piece is the state, whose buffers the new state takes over."""
Builder = Callable[..., Program]
Wait = Callable[[Callable[[], Any]], Any]
"""How to run something that may take long and cannot be interrupted: see `edl.runs.interrupt`."""


class Work(NamedTuple):
    """A program to be built: ``build(*inputs)``, for one seed.

    ``build`` is hashable, and the key under which its compiled form is kept: pass a module-level function, not a new
    closure. Inputs that are ``per_seed`` have a leading axis of seeds; the others are shared. Over a ``mesh`` of
    ``lanes``, seeds are dealt out evenly, and no two devices ever talk; two devices that are a pair (`edl.pair`) work
    on every seed together. ``effort`` is the compiler's.
    """

    build: Builder
    inputs: tuple[PyTree, ...]
    per_seed: tuple[bool, ...]
    mesh: Mesh | None = None
    effort: Effort = Effort.FULL

    def static(self, num_seeds: int) -> tuple:
        """What its compiled form depends on besides the shapes of the inputs."""
        return self.build, self.per_seed, num_seeds, self.mesh


class Outline(NamedTuple):
    """What is known of a program before it runs: its length, and the shapes of its state and its result."""

    iterations: int
    env_steps: int
    state: PyTree
    artifact: PyTree

    @property
    def around(self) -> Effort:
        """For its beginning and its end, which run once: little, unless they are all there is."""
        return Effort.LEAST if self.iterations > 1 else Effort.FULL


class Position(NamedTuple):
    """How far a program has come: all that a checkpoint needs. ``sums`` are those of the metrics since the last row."""

    iteration: int
    state: PyTree
    sums: dict[str, Float[np.ndarray, " seeds"]]


class Tick(NamedTuple):
    """The end of a piece. ``metrics`` are means over it; ``row``, at fixed iterations only, those since the last row.

    ``done`` marks the last tick. ``pace`` is in iterations a second; ``compile_seconds`` went by before the first one.
    """

    position: Position
    metrics: dict[str, Float[np.ndarray, " seeds"]]
    row: dict[str, Float[np.ndarray, " seeds"]] | None
    done: bool
    pace: float
    compile_seconds: float


def immediately(function: Callable[[], Any]) -> Any:
    """Just call it."""
    return function()


def outline(work: Work, num_seeds: int) -> Outline:
    """Trace a program without running it. Its inputs may be shapes as well as arrays."""
    return _outline(work.build, work.per_seed, num_seeds, *signature(as_arrays(work.inputs)))


@functools.lru_cache(maxsize=64)
def _outline(build: Builder, per_seed: tuple[bool, ...], num_seeds: int, tree: Any, shapes: tuple) -> Outline:
    facts: list[tuple[int, int]] = []

    def one(inputs: tuple, key: Key) -> tuple[PyTree, PyTree]:
        program = build(*inputs)
        facts.append((program.iterations, program.env_steps))
        state = program.init(key)
        return state, program.finish(state)

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), num_seeds))
    inputs = from_signature(tree, shapes)
    state, artifact = jax.eval_shape(functools.partial(over_seeds, one, per_seed, num_seeds, None), inputs, keys)
    return Outline(*facts[0], state, artifact)


def row_length(iterations: int) -> int:
    """Iterations between two rows of the log."""
    return math.ceil(iterations / ROWS)


def advance(work: Work, keys: Keys, start: Position | None = None, wait: Wait = immediately) -> Iterator[Tick]:
    """Run a program from the beginning, or from ``start``, to its end, one piece at a time, with one key per seed.

    The buffers of a position are used up by the next piece: save it at once, or not at all. A stage ends early if its
    metrics have a ``done`` that is 1 for every seed; a program whose result should not depend on the other seeds must
    then stop changing its state by itself.
    """
    facts, static = outline(work, keys.shape[0]), work.static(keys.shape[0])
    work = deal_out(work)
    first, rest = on_devices(work.mesh, quick_jit(_keys, "iterations")(keys, iterations=facts.iterations))
    began = time.perf_counter()
    run_piece = wait(lambda: compile_piece(work, facts, rest))
    initialise = wait(lambda: executable(_init, static, work.inputs, first, effort=facts.around))
    state = on_devices(work.mesh, facts.state)
    wait(lambda: executable(_finish, static, work.inputs, state, effort=facts.around))  # now: its time is told apart
    compile_seconds = time.perf_counter() - began
    if start is None:
        start = Position(0, wait(lambda: jax.block_until_ready(initialise(work.inputs, first))), {})
        check_hosts(work.inputs)
    yield from _pieces(run_piece, work.inputs, rest, start, compile_seconds)


def _keys(keys: Keys, iterations: int) -> tuple[Keys, Keys]:
    return jax.vmap(lambda key: keys_of(key, iterations))(keys)


def finish(work: Work, position: Position, num_seeds: int, wait: Wait = immediately) -> PyTree:
    """The result of a program that has run to its end."""
    effort = outline(work, num_seeds).around
    work = deal_out(work)
    compiled = wait(lambda: executable(_finish, work.static(num_seeds), work.inputs, position.state, effort=effort))
    return one_copy(work.mesh, jax.block_until_ready(compiled(work.inputs, position.state)))


def compile_piece(work: Work, facts: Outline, keys: Keys | jax.ShapeDtypeStruct) -> Callable:
    """The compiled piece of some work whose inputs are `deal_out` already; ``keys`` may be their shape."""
    args = (work.inputs, on_devices(work.mesh, facts.state), keys, np.int32(0), np.int32(0))
    return executable(_run_piece, work.static(keys.shape[0]), *args, donate=STATE, effort=work.effort)


def deal_out(work: Work) -> Work:
    """The same work with its inputs as arrays, where they are needed."""
    pairs = zip(as_arrays(work.inputs), work.per_seed, strict=True)
    return work._replace(inputs=tuple(on_devices(work.mesh, each, per_seed) for each, per_seed in pairs))


def _pieces(
    run_piece: Callable, inputs: tuple, keys: Keys, position: Position, compile_seconds: float
) -> Iterator[Tick]:
    """Cut the iterations into pieces of about `PIECE_SECONDS`, none of which crosses the end of a row."""
    iterations, size = keys.shape[1], 1
    length = row_length(iterations)
    while position.iteration < iterations:
        begin = position.iteration
        row_end = min((begin // length + 1) * length, iterations)
        end = min(begin + size, row_end)
        started = time.perf_counter()
        state, sums, last = jax.block_until_ready(
            run_piece(inputs, position.state, keys, np.int32(begin), np.int32(end))
        )
        check_hosts(inputs)
        elapsed = time.perf_counter() - started
        pace = (end - begin) / max(elapsed, 1e-6)
        size = max(1, min(4 * (end - begin), int(PIECE_SECONDS * pace)))
        new = {name: np.asarray(value, np.float64) for name, value in sums.items()}
        total = {name: position.sums.get(name, 0.0) + value for name, value in new.items()}
        row_begin = begin // length * length
        row = {name: value / (end - row_begin) for name, value in total.items()} if end == row_end else None
        position = Position(end, state, {} if row is not None else total)
        done = row is not None and "done" in last and bool(np.all(np.asarray(last["done"]) >= 1))
        metrics = {name: value / (end - begin) for name, value in new.items()}
        yield Tick(position, metrics, row, done or end == iterations, pace, compile_seconds)
        if done:
            return


def _init(
    build: Builder, per_seed: tuple[bool, ...], seeds: int, mesh: Mesh | None, inputs: tuple, keys: Keys
) -> PyTree:
    return over_seeds(lambda inputs, key: build(*inputs).init(key), per_seed, seeds, mesh, inputs, keys)


def _finish(
    build: Builder, per_seed: tuple[bool, ...], seeds: int, mesh: Mesh | None, inputs: tuple, state: PyTree
) -> PyTree:
    return over_seeds(lambda inputs, state: build(*inputs).finish(state), per_seed, seeds, mesh, inputs, state)


def _run_piece(
    build: Builder,
    per_seed: tuple[bool, ...],
    seeds: int,
    mesh: Mesh | None,
    inputs: tuple,
    state: PyTree,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> tuple[PyTree, dict[str, Array], dict[str, Array]]:
    """Iterations ``start`` to ``stop``, with the sums of their metrics and the last of them."""

    def one(inputs: tuple, keys: Keys, state: PyTree) -> tuple:
        *given, start, stop = inputs
        step = jax.jit(build(*given).step)  # so that it is traced once, here for the shapes of its metrics
        shapes = jax.eval_shape(step, state, keys[0])[1]
        zeros = {name: jnp.zeros((), jnp.float32) for name in shapes}

        def body(i: Array, carry: tuple) -> tuple:
            state, sums, _ = carry
            state, metrics = step(state, keys[i])
            metrics = {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()}
            return state, {name: sums[name] + metrics[name] for name in sums}, metrics

        return jax.lax.fori_loop(start, stop, body, (state, zeros, zeros))

    return over_seeds(one, (*per_seed, False, False), seeds, mesh, (*inputs, start, stop), keys, state)


def prepare(works: Sequence[Work], num_seeds: int, after: Callable[[], None] = lambda: None) -> threading.Thread:
    """Begin to compile, in the background, what will be needed later: while one stage runs, the next one is compiled.

    The inputs may be shapes. Nothing depends on how far this gets; whoever comes first compiles, and the other waits.
    ``after`` is called when all is compiled.
    """

    def compile_all() -> None:
        for work in works:
            here, facts, static = deal_out(work), outline(work, num_seeds), work.static(num_seeds)
            keys = jax.eval_shape(lambda n=facts.iterations: jax.random.split(jax.random.key(0), (num_seeds, n)))
            first = jax.eval_shape(lambda keys: keys[:, 0], keys)
            first, keys, state = on_devices(work.mesh, (first, keys, facts.state))
            compile_piece(here, facts, keys)
            executable(_init, static, here.inputs, first, effort=facts.around)
            executable(_finish, static, here.inputs, state, effort=facts.around)

    def quietly() -> None:
        with contextlib.suppress(Exception):  # whoever needs it will meet the same error, and can say so
            compile_all()
            after()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread

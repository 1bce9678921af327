"""Functions compiled ahead of time and kept in memory, by what they were compiled for. Safe to use from threads."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from edl.envs.base import Env
from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.runtime.effort import Effort, loops_on_gpu, options

MAX_EXECUTABLES = 64
"""Maximum number of cached executables per device. A run of EDL has about 20."""

_executables: dict[tuple, Future] = {}
_lock = threading.Lock()


def executable(
    function: Callable, static: tuple, *args: PyTree, donate: int | None = None, effort: Effort = Effort.FULL
) -> Callable:
    """``function(*static, ...)`` compiled for arguments of these shapes, or a cached executable.

    ``function`` and ``static`` are hashable. The buffers of argument number ``donate`` are reused for the result.
    The arguments may be arrays or shapes. It runs on the default device of this thread.
    """
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]  JAX adds it at run time
    request = (function, static, donate, compiler_options(effort, args), *signature(args))
    key = (device, *request)
    with _lock:
        first = key not in _executables
        future = _executables[key] = _executables.pop(key, None) or Future()  # the last one used is the last one
        if len(_executables) > MAX_EXECUTABLES * jax.local_device_count():
            del _executables[next(iter(_executables))]
    if first:
        try:
            future.set_result(compile_now(*request))
        except BaseException as error:
            _executables.pop(key, None)
            future.set_exception(error)
    return future.result()  # another thread may still be compiling it


def compiler_options(effort: Effort, args: PyTree) -> tuple[tuple[str, Any], ...]:
    """The compiler options of a program, as a hashable value.

    Programs with a robot on MJX always have the full compile effort, because XLA's older code generator for CPUs
    crashes on them (jaxlib 0.11.2). On a GPU they run their loops as CUDA graphs, if their physics allows it.
    """
    robots = robots_in(args)
    if not robots:
        return tuple((options(effort) or {}).items())
    on_gpu = loops_on_gpu() if all(each.physics.runs_on_device for each in robots) else None
    return tuple({**(options(Effort.FULL) or {}), **(on_gpu or {})}.items())


def robots_in(args: PyTree) -> list[MjxEnv | MjxMaze]:
    """The envs on MJX among the arguments."""
    leaves = jax.tree.leaves(args, is_leaf=lambda each: isinstance(each, Env))
    return [each for each in leaves if isinstance(each, MjxEnv | MjxMaze)]


def compile_now(
    function: Callable, static: tuple, donate: int | None, chosen: tuple, tree: Any, shapes: tuple
) -> Callable:
    jitted = jax.jit(
        functools.partial(function, *static),
        donate_argnums=() if donate is None else donate,
        compiler_options=dict(chosen) or None,
    )
    return jitted.lower(*from_signature(tree, shapes)).compile()


def compile_once(function: Callable, static: tuple, *args: PyTree) -> Callable:
    """``function(*static, ...)`` compiled with the least effort, because it runs once. The arguments may be shapes."""
    return executable(function, static, *as_arrays(args), effort=Effort.LEAST)


def call_once(function: Callable, static: tuple, *args: PyTree) -> Any:
    """``function(*static, *args)``, compiled by `compile_once`."""
    return compile_once(function, static, *args)(*as_arrays(args))


def signature(args: PyTree) -> tuple[Any, tuple]:
    """Structure, shapes, types and shardings of arguments, as hashable values."""
    leaves, tree = jax.tree.flatten(args)
    return tree, tuple((leaf.shape, leaf.dtype, _sharding(leaf)) for leaf in leaves)


def _sharding(leaf: Any) -> NamedSharding | None:
    """How an array is spread over devices. JAX may append None for unsharded axes, which is dropped here."""
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return None
    axes = list(sharding.spec)
    while axes and axes[-1] is None:
        axes.pop()
    return NamedSharding(sharding.mesh, PartitionSpec(*axes), memory_kind=sharding.memory_kind)


def from_signature(tree: Any, shapes: tuple) -> PyTree:
    """Arguments without contents."""
    return jax.tree.unflatten(
        tree, [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype, sharding in shapes]
    )


def as_arrays(tree: PyTree) -> PyTree:
    """Turn Python numbers, such as a config's floats, into arrays of a definite type."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)) if isinstance(x, int | float) else x, tree)

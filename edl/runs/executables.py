"""Functions compiled ahead of time, once in a process, whichever thread asks first."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from edl.runtime import threefry
from edl.runtime.effort import Effort, options

MOST = 64
"""So many compiled functions are kept."""

_compiled: dict[tuple, Future] = {}
_lock = threading.Lock()


def executable(
    function: Callable, static: tuple, *args: PyTree, donate: int | None = None, effort: Effort = Effort.FULL
) -> Callable:
    """``function(*static, ...)`` compiled for arguments of these shapes; who asks for the same waits for the first.

    ``function`` and ``static`` are hashable. The buffers of argument number ``donate`` may be used for the result.
    """
    request = (function, static, donate, effort, *signature(args))
    with _lock:
        mine = request not in _compiled
        future = _compiled.setdefault(request, Future())
        if len(_compiled) > MOST:
            del _compiled[next(iter(_compiled))]
    if mine:
        try:
            future.set_result(compile_now(*request))
        except BaseException as error:
            _compiled.pop(request, None)
            future.set_exception(error)
    return future.result()


def quickly(function: Callable, static: tuple, *args: PyTree) -> Any:
    """Call ``function(*static, *args)``, compiled quickly, or ahead of this call by `prepare_quickly`."""
    args = as_arrays(args)
    return executable(function, static, *args, effort=Effort.LEAST)(*args)


def prepare_quickly(function: Callable, static: tuple, *args: PyTree) -> None:
    """Compile what `quickly` will call; the arguments may be shapes."""
    executable(function, static, *as_arrays(args), effort=Effort.LEAST)


def compile_now(
    function: Callable, static: tuple, donate: int | None, effort: Effort, tree: Any, shapes: tuple
) -> Callable:
    """Trace, lower and compile."""
    threefry.enable()
    jitted = jax.jit(
        functools.partial(function, *static),
        donate_argnums=() if donate is None else donate,
        compiler_options=options(effort),
    )
    return jitted.lower(*from_signature(tree, shapes)).compile()


def signature(args: PyTree) -> tuple[Any, tuple]:
    """Structure, shapes and places of arguments: all that compiling needs to know of them, and hashable."""
    leaves, tree = jax.tree.flatten(args)
    return tree, tuple((leaf.shape, leaf.dtype, _place(leaf)) for leaf in leaves)


def _place(leaf: Any) -> NamedSharding | None:
    """Where an array lies, if it is spread over devices. JAX says of some that they are whole along each axis."""
    place = getattr(leaf, "sharding", None)
    if not isinstance(place, NamedSharding):
        return None
    axes = list(place.spec)
    while axes and axes[-1] is None:
        axes.pop()
    return NamedSharding(place.mesh, PartitionSpec(*axes), memory_kind=place.memory_kind)


def from_signature(tree: Any, shapes: tuple) -> PyTree:
    """Arguments without contents."""
    return jax.tree.unflatten(
        tree, [jax.ShapeDtypeStruct(shape, dtype, sharding=place) for shape, dtype, place in shapes]
    )


def as_arrays(tree: PyTree) -> PyTree:
    """Python numbers, such as a config's floats, become arrays of a definite type."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)) if isinstance(x, int | float) else x, tree)

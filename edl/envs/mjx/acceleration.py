"""Changes to MJX that make a physics step faster on an accelerator. They are in place while a step is traced.

A step of MJX is some hundred small kernels, and 256 ants or 4,096 do not fill a GPU. What takes time there is to launch
the kernels, and to wait: the solver and its line search are loops whose conditions the CPU reads from the GPU, and
every iteration calls cuSOLVER and cuBLAS to solve a linear system with as many unknowns as the robot has degrees of
freedom (14 for the ant). So

* few iterations of the solver and of the line search are computed one after the other, without a loop;
* small systems are solved by `solve_positive_definite`, in operations that XLA fuses.

Then a GPU can run all loops of the program by itself, as one CUDA graph (`edl.runtime.effort.loops_on_gpu`). The
results are the same up to rounding. A CPU is faster without any of this.
"""

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

MAX_UNROLLED = 8
"""Largest number of iterations that are computed without a loop."""
MAX_DIRECT = 20
"""Largest number of degrees of freedom for which `solve_positive_definite` replaces the libraries."""
TRACING = threading.RLock()
"""Held while a physics step is traced, because the changes concern all threads."""
MODULES = ("solver", "smooth", "forward")
"""The modules of MJX that solve linear systems."""


class Overlay:
    """A module with some of its attributes replaced."""

    def __init__(self, module: Any, **replaced: Any):
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def runs_on_device(degrees_of_freedom: int) -> bool:
    """Whether a step has no call of a library, so that a GPU can run loops of steps by itself."""
    return degrees_of_freedom <= MAX_DIRECT


@contextlib.contextmanager
def accelerated(model: Any, *, enabled: bool = True) -> Iterator[None]:
    """Change MJX for the steps of a MuJoCo ``model``, until the context ends.

    Other threads wait, also those that trace without the changes (not ``enabled``).
    """
    with TRACING, contextlib.ExitStack() as undo:
        for module, name, changed in changes(model) if enabled else ():
            undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, changed)
        yield


def changes(model: Any) -> list[tuple[Any, str, Any]]:
    """The attributes of MJX's modules to replace, with what replaces them."""
    modules = {name: importlib.import_module(f"mujoco.mjx._src.{name}") for name in MODULES}
    found: list[tuple[Any, str, Any]] = []
    if model.opt.ls_iterations <= MAX_UNROLLED and hasattr(modules["solver"], "_while_loop_scan"):
        found.append((modules["solver"], "_while_loop_scan", repeat_while))
    scipy, lax = jax.scipy, jax.lax
    if runs_on_device(model.nv):
        linalg = Overlay(jax.scipy.linalg, cho_factor=keep_matrix, cho_solve=solve_kept_matrix)
        scipy = Overlay(jax.scipy, linalg=linalg)
    if model.opt.iterations <= MAX_UNROLLED:
        repeat = functools.partial(repeat_while, max_iterations=int(model.opt.iterations))
        lax = Overlay(jax.lax, while_loop=repeat)
    found.append((modules["solver"], "jax", Overlay(jax, scipy=scipy, lax=lax)))
    found += [(modules[name], "jax", Overlay(jax, scipy=scipy)) for name in MODULES if name != "solver"]
    return found


def repeat_while(condition: Callable[[Any], Any], body: Callable[[Any], Any], value: Any, max_iterations: int) -> Any:
    """Apply ``body`` while ``condition`` holds, at most ``max_iterations`` times, without a loop."""
    for _ in range(max_iterations):
        goes_on = condition(value)
        value = jax.tree.map(lambda new, old, goes_on=goes_on: jnp.where(goes_on, new, old), body(value), value)
    return value


def keep_matrix(matrix: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], bool]:
    """Stands for ``cho_factor``: the matrix itself."""
    return matrix, False


def solve_kept_matrix(kept: tuple[Float[Array, "n n"], bool], vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """Stands for ``cho_solve``, after `keep_matrix`."""
    return solve_positive_definite(kept[0], vector)


def solve_positive_definite(matrix: Float[Array, "n n"], vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """The x with A x = b, by the Cholesky factors A = L L^T; NaN if A is not positive definite.

    All loops over the n columns are unrolled. XLA fuses them to a few kernels, which work on all robots at once.
    """
    size = vector.shape[0]
    rows, columns, rest = jnp.arange(size), [], matrix
    for k in range(size):
        column = jnp.where(rows >= k, rest[:, k] * jax.lax.rsqrt(rest[k, k]), 0.0)
        columns.append(column)
        rest = rest - column[:, None] * column[None, :]
    forward, rest = [], vector
    for k in range(size):  # L y = b
        forward.append(rest[k] / columns[k][k])
        rest = rest - columns[k] * forward[k]
    found: list[Float[Array, ""]] = []
    for k in reversed(range(size)):  # L^T x = y
        known = sum((columns[k][k + 1 + i] * each for i, each in enumerate(found)), jnp.zeros(()))
        found.insert(0, (forward[k] - known) / columns[k][k])
    return jnp.stack(found)

"""How much work XLA puts into compiling a program: in a run of a minute, compiling takes as long as running.

On a CPU, XLA has two code generators for fused operations. The newer one takes twice as long to compile and pays off
where networks are trained for long (`Effort.FULL`). GPUs have no such choice.
"""

import enum
import functools
from collections.abc import Callable

import jax


class Effort(enum.Enum):
    """Compile effort of a program that runs for a moment, for seconds, or for most of a run."""

    LEAST = "least"
    LESS = "less"
    FULL = "full"


OPTIONS = {
    Effort.LEAST: {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
    Effort.LESS: {"xla_cpu_use_fusion_emitters": False},
    Effort.FULL: {},
}

_enabled = False


def enable() -> None:
    """Let `options` and `quick_jit` reduce the compile effort in this process."""
    global _enabled
    _enabled = True


def options(effort: Effort) -> dict[str, int] | None:
    """Compiler options for this effort, without those that this version of XLA lacks; None until `enable` is called."""
    if not _enabled or jax.default_backend() != "cpu":
        return None
    return {name: value for name, value in OPTIONS[effort].items() if is_known(name, value)} or None


@functools.cache
def is_known(option: str, value: int) -> bool:
    """Whether this version of XLA accepts an option."""
    try:
        jax.jit(lambda: 0, compiler_options={option: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


@functools.cache
def quick_jit(function: Callable, *static: str) -> Callable:
    """`jax.jit` with the least compile effort, for functions that run once."""
    return jax.jit(function, static_argnames=static, compiler_options=options(Effort.LEAST))

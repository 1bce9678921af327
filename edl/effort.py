"""How hard the compiler tries: in a run of a minute, compiling takes as long as what is compiled.

On a CPU, XLA has two ways to write the code of fused operations. The newer one takes twice as long to compile, and pays
off where networks are trained for long, which is `Effort.FULL`. GPUs have no such choice.
"""

import enum
import functools
from collections.abc import Callable

import jax


class Effort(enum.Enum):
    """For what runs a moment, for what runs a while, and for what a run is about."""

    LEAST = "least"
    LESS = "less"
    FULL = "full"


OPTIONS = {
    Effort.LEAST: {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
    Effort.LESS: {"xla_cpu_use_fusion_emitters": False},
    Effort.FULL: {},
}


def options(effort: Effort) -> dict[str, int] | None:
    """What to tell the compiler. Its options come and go: those that it does not know are left out."""
    if jax.default_backend() != "cpu":
        return None
    return {name: value for name, value in OPTIONS[effort].items() if is_known(name, value)} or None


@functools.cache
def is_known(option: str, value: int) -> bool:
    """Whether this version of XLA has an option."""
    try:
        jax.jit(lambda: 0, compiler_options={option: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


@functools.cache
def quick_jit(function: Callable, *static: str) -> Callable:
    """`jax.jit` for what runs for less time than the compiler's optimisations take."""
    return jax.jit(function, static_argnames=static, compiler_options=options(Effort.LEAST))

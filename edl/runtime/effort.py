"""How much work XLA puts into compiling a program: in a run of a minute, compiling takes as long as running.

On a CPU, XLA has two code generators for fused operations. The newer one takes twice as long to compile and pays off
where networks are trained for long (`Effort.FULL`). GPUs have no such choice.

A GPU can run the loops of a program by itself, as one CUDA graph, if no operation in them calls a library that needs
the CPU (`loops_on_gpu`). That saves the time to launch many small kernels. If an operation calls such a library, the
program can be slower than without graphs.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any

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
LOOPS_ON_GPU = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""What XLA may put into CUDA graphs: its defaults, and loops."""

_enabled = False


def enable() -> None:
    """Let `options` and `quick_jit` reduce the compile effort in this process."""
    global _enabled
    _enabled = True


def options(effort: Effort) -> dict[str, Any] | None:
    """Compiler options for this effort, without those that this version of XLA lacks; None until `enable` is called."""
    return known(OPTIONS[effort]) if _enabled and jax.default_backend() == "cpu" else None


def loops_on_gpu() -> dict[str, Any] | None:
    """Compiler options that let a GPU run the loops of a program by itself; None until `enable` is called."""
    return known(LOOPS_ON_GPU) if _enabled and jax.default_backend() == "gpu" else None


def known(chosen: dict[str, Any]) -> dict[str, Any] | None:
    return {name: value for name, value in chosen.items() if is_known(name, value)} or None


@functools.cache
def is_known(option: str, value: Any) -> bool:
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

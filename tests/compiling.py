"""Compile for tests: what runs for milliseconds is not worth optimising, and compiles in a quarter of the time."""

import functools

import jax

OPTIONS = ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False})


def _accepted(options: dict) -> bool:
    """Whether this version of XLA knows the options: they come and go."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


jit = functools.partial(
    jax.jit, compiler_options={k: v for each in OPTIONS if _accepted(each) for k, v in each.items()}
)

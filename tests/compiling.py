"""Compile for tests: what runs for milliseconds is not worth optimising, and compiles in half the time."""

import functools

import jax

jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

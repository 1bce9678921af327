"""Compile for tests: what runs for milliseconds is not worth optimising, and compiles in a quarter of the time."""

import functools

import jax

from edl.runtime.effort import Effort, options

jit = functools.partial(jax.jit, compiler_options=options(Effort.LEAST))

"""``jit`` with little optimisation, for programs that run for milliseconds: they compile in a quarter of the time."""

import functools

import jax

from edl.runtime.effort import Effort, options

jit = functools.partial(jax.jit, compiler_options=options(Effort.LEAST))

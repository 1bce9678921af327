"""A faster CPU lowering of JAX's random numbers. The numbers themselves do not change.

On a CPU, JAX lowers the 20 rounds of Threefry-2x32 (Salmon et al., 2011) to a loop. XLA compiles the unrolled function
five times faster than that loop and also runs it faster; in a program that draws random numbers in a dozen places this
is most of the compile time.

The result is behind an optimization barrier. Without it, XLA copies the rounds that derive a key into every loop that
draws with the key, and the LLVM vectoriser of JAX 0.12 then takes time exponential in the number of rounds: compiling
`gaussian_vae` in one program did not finish within minutes. The barrier brings that to three seconds.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, UInt32

Words = UInt32[Array, "..."]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry(key1: Words, key2: Words, x1: Words, x2: Words) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 unrolled rounds.

    It is written in `lax` because tracing `jnp` takes longer than compiling.
    """
    key1, key2, x1, x2 = jnp.broadcast_arrays(key1, key2, x1, x2)
    constant = functools.cache(functools.partial(lax.full_like, x1))
    keys = (key1, key2, lax.bitwise_xor(lax.bitwise_xor(key1, key2), constant(PARITY)))
    x1, x2 = lax.add(x1, keys[0]), lax.add(x2, keys[1])
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x1 = lax.add(x1, x2)
            left = lax.shift_left(x2, constant(distance))
            right = lax.shift_right_logical(x2, constant(32 - distance))
            x2 = lax.bitwise_xor(x1, lax.bitwise_or(left, right))
        x1 = lax.add(x1, keys[(group + 1) % 3])
        x2 = lax.add(lax.add(x2, keys[(group + 2) % 3]), constant(group + 1))
    return x1, x2


def threefry_once(key1: Words, key2: Words, x1: Words, x2: Words) -> tuple[Words, Words]:
    """`threefry`, computed once and not again in every loop that reads its result."""
    x1, x2 = lax.optimization_barrier(threefry(key1, key2, x1, x2))
    return x1, x2


@functools.cache
def enable() -> bool:
    """Use `threefry_once` for JAX's random numbers on CPUs in this process; False if this JAX does not support that."""
    try:
        from jax.extend.random import threefry2x32_p
        from jax.interpreters.mlir import lower_fun, register_lowering
    except ImportError:
        return False
    register_lowering(threefry2x32_p, lower_fun(threefry_once, multiple_results=True), platform="cpu")
    return True

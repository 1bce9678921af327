"""log Gamma and its derivatives for arguments above 1, from elementary functions.

JAX's own versions cover the whole real line. With them, a Beta policy spends most of its run time and of its compile
time in these functions. Here the argument is shifted up by six with Gamma(x + 1) = x Gamma(x); from there on
Stirling's series is exact in float32.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SHIFT = 6
HALF_LOG_TWO_PI = 0.9189385332046727


@jax.custom_jvp
def lgamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log Gamma(x), x > 1."""
    product = x
    for i in range(1, SHIFT):
        product = product * (x + i)
    y = x + SHIFT
    inverse = 1 / y
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square / 1260))
    return (y - 0.5) * jnp.log(y) - y + HALF_LOG_TWO_PI + series - jnp.log(product)


@jax.custom_jvp
def digamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """d log Gamma(x) / dx, x > 1."""
    y = x + SHIFT
    inverse = 1 / y
    square = inverse * inverse
    series = square * (1 / 12 - square * (1 / 120 - square / 252))
    return jnp.log(y) - 0.5 * inverse - series - sum(1 / (x + i) for i in range(SHIFT))


def trigamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """d digamma(x) / dx, x > 1."""
    inverse = 1 / (x + SHIFT)
    square = inverse * inverse
    series = inverse * (1 + 0.5 * inverse + square * (1 / 6 - square * (1 / 30 - square / 42)))
    return series + sum(1 / ((x + i) * (x + i)) for i in range(SHIFT))


lgamma.defjvps(lambda dx, value, x: dx * digamma(x))
digamma.defjvps(lambda dx, value, x: dx * trigamma(x))


def betaln(a: Float[Array, "*n"], b: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log B(a, b) = log Gamma(a) + log Gamma(b) - log Gamma(a + b), a, b > 1."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)

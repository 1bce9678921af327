"""Our Threefry draws the bits of JAX and is compiled without a loop on a CPU."""

import jax
import numpy as np

from edl.runtime import threefry


def test_bits_equal_those_of_jax():
    from jax.extend.random import threefry_2x32

    key = np.array([0x13198A2E, 0x03707344], np.uint32)
    counts = np.array([0x243F6A88, 0x85A308D3], np.uint32)
    x1, x2 = threefry.threefry(*map(jax.numpy.asarray, (*key, *counts)))
    # The published test vector of Threefry-2x32 with 20 rounds (Salmon et al.).
    assert (int(x1), int(x2)) == (0xC4923A9C, 0x483DF7A0)
    np.testing.assert_array_equal(threefry_2x32(key, counts), [x1, x2])


def test_is_compiled_without_a_loop_on_a_cpu():
    assert threefry.enable()
    with jax.default_device(jax.devices("cpu")[0]):
        text = jax.jit(lambda key: jax.random.bits(key, (7,))).lower(jax.random.key(0)).as_text()
        assert "while" not in text
        drawn = jax.jit(lambda key: jax.random.bits(key, (7,)))(jax.random.key(5))
    assert drawn.dtype == np.uint32
    assert len(set(drawn.tolist())) == 7

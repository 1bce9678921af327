"""The cores of a processor as devices of JAX, so that work can be dealt out to them."""

import os

import jax


def enable() -> None:
    """Let JAX see as many devices as this process may use cores. It must be called before JAX is used.

    It does nothing where someone has decided already: through ``JAX_NUM_CPU_DEVICES``, through ``XLA_FLAGS``, or by
    having used JAX. What runs on one device is as fast as before, and GPUs are not concerned.
    """
    chosen = jax.config.jax_num_cpu_devices  # pyright: ignore[reportAttributeAccessIssue]  JAX adds it at run time
    if chosen > 0 or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(available()))
    except RuntimeError:  # JAX has begun
        return


def available() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))

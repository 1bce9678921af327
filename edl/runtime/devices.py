"""CPU cores as JAX devices, so that seeds and grid points can be spread over them."""

import os

import jax


def enable() -> None:
    """Give JAX one CPU device per core of this process. Call it before JAX is used.

    It does nothing if the user has set ``JAX_NUM_CPU_DEVICES`` or the matching XLA flag, or if JAX is already in use.
    Programs on one device are as fast as before, and GPUs are not affected.
    """
    chosen = jax.config.jax_num_cpu_devices  # pyright: ignore[reportAttributeAccessIssue]  JAX adds it at run time
    if chosen > 0 or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(available_cores()))
    except RuntimeError:  # JAX is already in use
        return


def on_accelerator() -> bool:
    """Whether programs run on a GPU or TPU. An env in JAX is then a hundred times as fast as on a CPU."""
    return jax.default_backend() != "cpu"


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))

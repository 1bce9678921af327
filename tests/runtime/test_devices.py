"""CPU cores as JAX devices: one device per core, unless the user has chosen a number or JAX is already in use."""

import os
import subprocess
import sys

import jax

from edl.runtime import devices


def count_devices(**settings: str) -> int:
    """The number of devices after `devices.enable` in a new process. The second call must change nothing."""
    chosen = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
    inherited = {name: value for name, value in os.environ.items() if name not in chosen}
    code = "import jax; from edl.runtime import devices as d; d.enable(); d.enable(); print(len(jax.devices()))"
    environment = {**inherited, "JAX_PLATFORMS": "cpu", **settings}
    return int(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))


def test_there_is_one_device_per_core_unless_the_user_has_chosen_a_number():
    assert count_devices() == len(devices.available_cores())
    assert count_devices(JAX_NUM_CPU_DEVICES="3") == 3
    assert count_devices(XLA_FLAGS="--xla_force_host_platform_device_count=4") == 4


def test_enable_changes_nothing_once_jax_is_in_use():
    before = len(jax.devices())
    devices.enable()
    assert len(jax.devices()) == before

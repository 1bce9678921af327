"""Everything about XLA and this process: compile cache, compile options, CPU devices, random-number lowering, gc.

The command line calls `enable`. Importing `edl` or calling `edl.run` changes nothing in the user's process.
"""

import gc


def enable() -> None:
    """Set this process up for short, fast runs. Call it before JAX is used."""
    from edl.runtime import compile_cache, devices, effort, threefry

    devices.enable()
    effort.enable()
    threefry.enable()
    compile_cache.enable()
    # Tracing creates many long-lived objects; scanning them for garbage takes a tenth of the tracing time.
    gc.set_threshold(100_000, 50, 100)

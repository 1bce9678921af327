"""JAX's compile cache on disk. With it, a second run starts in seconds instead of half a minute."""

import os
import warnings
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def enable() -> Path | None:
    """Turn on JAX's persistent compilation cache, and return its folder; None if there is no cache.

    The folder is ``$EDL_CACHE``, or else a folder in the user's cache folder. An empty ``EDL_CACHE`` turns the cache
    off. A folder chosen through JAX itself (``JAX_COMPILATION_CACHE_DIR``) is used as it is. There is no cache if the
    folder cannot be written to. The folder can be deleted at any time.
    """
    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]  JAX adds it at run time
    if chosen:
        return Path(chosen)
    folder = _folder()
    if folder is None or not _is_writable(folder):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # JAX decides whether it has a cache when it first compiles, which may have been before this call.
    compilation_cache.reset_cache()
    # A process that was killed while it wrote an entry leaves half an entry. JAX warns and compiles again.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    return folder


def _folder() -> Path | None:
    """The folder of the cache; None if the user turned it off or has no home folder."""
    chosen = os.environ.get("EDL_CACHE")
    if chosen is not None:
        return Path(chosen).expanduser().absolute() if chosen else None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "edl" / "jax"
    except RuntimeError:  # there is no home folder
        return None


def _is_writable(folder: Path) -> bool:
    """Whether ``folder`` exists or can be created, and files can be written to it.

    Only its owner may access a new folder, because its contents are executed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)

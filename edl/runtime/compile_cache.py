"""Programs compiled once and kept between processes: a second run starts in seconds instead of half a minute."""

import os
import warnings
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def enable() -> Path | None:
    """Turn on JAX's persistent compilation cache, and say where it is: None if there is none.

    It is in ``$EDL_CACHE``, or else in the user's cache folder; an empty ``EDL_CACHE`` turns it off, and a place chosen
    through JAX itself (``JAX_COMPILATION_CACHE_DIR``) is left alone. Where the folder cannot be written to, nothing is
    kept and nothing else changes. It is safe to delete at any time.
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
    # A process killed while it wrote an entry leaves half of one: JAX then compiles anew, which is no news to a user.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    return folder


def _folder() -> Path | None:
    """Where the cache should be, if anywhere."""
    chosen = os.environ.get("EDL_CACHE")
    if chosen is not None:
        return Path(chosen).expanduser().absolute() if chosen else None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "edl" / "jax"
    except RuntimeError:  # a user without a home
        return None


def _is_writable(folder: Path) -> bool:
    """Whether ``folder`` exists, or could be made, and takes files. Only its owner may read what is run from it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)

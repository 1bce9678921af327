"""Imports mujoco and mujoco-mjx, the packages of the extra ``mjx``, and says what to do if they are missing.

Nothing in this package imports them before a robot is made, so edl works without them.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import io
import pathlib
from typing import Any, NamedTuple

from edl.config import ConfigError, check

INSTALL = "in a checkout, pip install '.[mjx]'"
GYM_MODELS = pathlib.Path("envs", "mujoco", "assets")
"""The folder of Gym's models in the package gymnasium."""


class Library(NamedTuple):
    """The modules ``mujoco`` (C, on the CPU) and ``mujoco.mjx`` (JAX)."""

    mujoco: Any
    mjx: Any


def load_library() -> Library:
    """Import both packages, after a check of their versions."""
    check_versions(installed_version("mujoco"), installed_version("mujoco-mjx"))
    return _import_library()


@functools.lru_cache(maxsize=1)
def _import_library() -> Library:
    # MJX prints that NVIDIA's Warp is missing. It is another implementation, which edl does not use.
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return Library(importlib.import_module("mujoco"), importlib.import_module("mujoco.mjx"))
        except Exception as error:  # with a MUJOCO_GL that does not work, mujoco raises an AttributeError
            raise ConfigError(
                f"robots need mujoco and mujoco-mjx, which cannot be imported ({type(error).__name__}: {error}). "
                f"Unset MUJOCO_GL if it is set, or install them again: {INSTALL}."
            ) from error


def installed_version(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_versions(mujoco: str | None, mjx: str | None) -> None:
    """Reject missing packages, and packages that were not released together."""
    missing = [name for name, version in (("mujoco", mujoco), ("mujoco-mjx", mjx)) if version is None]
    names = " and ".join(missing)
    check(not missing, f"robots need packages that are not installed: {names}. Install them: {INSTALL}.")
    assert mujoco is not None
    assert mjx is not None
    check(
        mujoco.split(".")[:2] == mjx.split(".")[:2],
        f"mujoco and mujoco-mjx must have the same version (got mujoco {mujoco} and mujoco-mjx {mjx}). "
        f"Install a pair that fits: {INSTALL}.",
    )


def read_gym_model(file: str) -> str:
    """The text of one of Gym's models. Gymnasium is found but not imported."""
    found = importlib.util.find_spec("gymnasium")
    folders = [] if found is None else list(found.submodule_search_locations or [])
    for folder in folders:
        path = pathlib.Path(folder) / GYM_MODELS / file
        if path.is_file():
            return path.read_text("utf-8")
    raise ConfigError(f"the model {file!r} is part of gymnasium, which is not installed: pip install gymnasium.")

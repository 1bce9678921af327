"""How a run was made: version, commit, command, device and packages."""

import datetime
import functools
import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import edl
from edl.runs import manifest, store
from edl.runs.errors import RetryableError

NUMERIC_PACKAGES = ("jax", "jaxlib")
"""Packages whose version may change the bits of a result."""
PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "optax", "safetensors")


def provenance(command: Sequence[str] | None = None) -> dict[str, Any]:
    """The contents of provenance.json."""
    devices = jax.devices()
    return {
        "edl": edl.__version__,
        "folder_format": manifest.FORMAT,
        "commit": commit(),
        "command": shlex.join([_command_name(sys.argv[0]), *sys.argv[1:]] if command is None else command),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        "backend": jax.default_backend(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def read_provenance(folder: store.Folder) -> dict[str, Any]:
    """The contents of provenance.json, checked; empty if it is missing."""
    if not folder.has(store.PROVENANCE):
        return {}
    found = folder.read_json(store.PROVENANCE)
    if not isinstance(found, dict) or not isinstance(found.get("packages", {}), dict):
        place = folder.place(store.PROVENANCE)
        raise RetryableError(f"{place} is damaged: it must be an object. {store.remedy(store.PROVENANCE)}")
    return found


def other_numerics(recorded: Mapping[str, Any]) -> list[str]:
    """What differs from the time when a run was started and may change the bits of its result, in words."""
    before, now = recorded.get("packages", {}), {name: importlib.metadata.version(name) for name in NUMERIC_PACKAGES}
    changed = [f"{name} {before[name]} (now {now[name]})" for name in now if before.get(name, now[name]) != now[name]]
    backend = jax.default_backend()
    if recorded.get("backend", backend) != backend:
        changed.append(f"the backend {recorded['backend']} (now {backend})")
    return changed


def _command_name(path: str) -> str:
    """The command without the path under which it is installed."""
    return "edl" if Path(path).name in ("edl", "__main__.py") else Path(path).name


@functools.cache
def commit() -> str | None:
    """The git commit of this code, with a plus if files were changed since; None outside of a repository."""
    here = Path(__file__)
    options: Any = {"cwd": here.parent, "capture_output": True, "text": True, "timeout": 5, "check": True}
    commands = (("ls-files", "--error-unmatch", here.name), ("rev-parse", "HEAD"), ("diff", "HEAD", "--stat"))
    try:
        answers = [subprocess.run(["git", *words], **options).stdout for words in commands]
    except (OSError, subprocess.SubprocessError):
        return None
    return answers[1].strip() + ("+" if answers[2].strip() else "")

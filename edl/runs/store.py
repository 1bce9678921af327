"""The folder of a run. This is the only module that writes to disk.

Every file appears whole or not at all: it is written to a temporary file, synced, and renamed. A folder that holds a
run is never overwritten by another, nothing is written outside of it, and reading it executes nothing.
"""

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from edl.config import ConfigError
from edl.runs import tensors

CONFIG = "config.json"
METRICS = "metrics.json"
LOG = "log.jsonl"
PROVENANCE = "provenance.json"
REPORT = "report.html"
CHECKPOINT = "checkpoint/state.safetensors"
PROGRESS = "checkpoint/progress.json"
NAME = re.compile(r"(?:(?:checkpoint|figures)/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")
TEMPORARY = ".part-"


class Folder:
    """The folder of one run."""

    def __init__(self, path: Path):
        self.path = path

    def place(self, name: str) -> Path:
        """The path of a file of the run. Names that lead out of the folder are rejected, and so are links."""
        if not NAME.fullmatch(name) or ".." in name:
            raise ConfigError(f"file names must consist of letters, digits, '_', '-' and '.' (got {name!r}).")
        place = self.path / name
        if place.parent != self.path and place.parent.is_symlink():
            raise ConfigError(f"{place.parent} must be a folder, not a link. Remove the link.")
        return place

    def has(self, name: str) -> bool:
        return self.place(name).is_file()

    def write(self, name: str, data: bytes) -> Path:
        place = self.place(name)
        place.parent.mkdir(exist_ok=True)
        temporary = place.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return place

    def read(self, name: str) -> bytes:
        """The bytes of a file; a `ConfigError` if it cannot be read."""
        place = self.place(name)
        try:
            return place.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{place} cannot be read ({error.strerror}). Check the folder, or finish the run with --resume."
            ) from error

    def remove(self, name: str) -> None:
        self.place(name).unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> Path:
        """Write standard JSON: NaN and infinity become null."""
        return self.write(name, (json.dumps(plain(value), indent=2, allow_nan=False) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """Read JSON; a `ConfigError` if it is not valid."""
        return parse_json(self.read(name), str(self.place(name)))

    def write_log(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write log.jsonl, one row per line."""
        lines = [json.dumps(plain(row), allow_nan=False) + "\n" for row in rows]
        self.write(LOG, "".join(lines).encode())

    def read_log(self) -> list[dict[str, Any]]:
        """The rows of log.jsonl; none if there is no log yet."""
        if not self.has(LOG):
            return []
        whose = str(self.place(LOG))
        rows = [parse_json(line, whose) for line in self.read(LOG).splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{whose} is damaged: every line must be a JSON object. Delete it; the run can continue.")
        return rows

    def save(self, name: str, tree: PyTree, notes: Mapping[str, Any] | None = None) -> Path:
        return self.write(name, tensors.encode(tree, notes))

    def load(self, name: str, skeleton: PyTree, *, finite: bool = True, optional: Collection[str] = ()) -> PyTree:
        """Load a tree that `save` wrote, in the structure of ``skeleton``; ``optional`` fields may be missing."""
        whose = str(self.place(name))
        return tensors.decode(self.read(name), skeleton, whose, finite=finite, optional=optional)

    def save_picture(self, name: str, png: bytes) -> Path:
        """Save a picture under figures/."""
        return self.write(f"figures/{name}.png", png)


def create(path: str | Path) -> Folder:
    """Create the folder of a new run; reject one that is not empty."""
    folder = Folder(Path(path))
    check_free(folder.path)
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"output folder {str(path)!r} cannot be created ({error.strerror}). Choose another --out."
        ) from error
    return folder


def check_free(path: Path) -> None:
    """Reject a path that holds a run or anything else."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise ConfigError(f"output folder {str(path)!r} is a file. Choose another --out.")
    if (path / CONFIG).exists():
        raise ConfigError(
            f"output folder {str(path)!r} already holds a run. Continue it with --resume, or choose another --out."
        )
    if any(not entry.name.startswith(TEMPORARY) for entry in path.iterdir()):
        raise ConfigError(f"output folder {str(path)!r} is not empty. Choose another --out.")


def open_run(path: str | Path) -> Folder:
    """The folder of an existing run."""
    folder = Folder(Path(path))
    if not folder.place(CONFIG).is_file():
        raise ConfigError(
            f"{str(path)!r} holds no run: it has no {CONFIG}. Check the path, or start a run with `edl run`."
        )
    return folder


@contextlib.contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Keep other processes from working on the same run. The lock ends with this process."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock: runs are not locked there
        yield
        return
    handle = os.open(folder.path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            where = str(folder.path)
            raise ConfigError(f"another process is working on {where!r}. Wait for it, or stop it.") from error
        for left in (*folder.path.glob(f"{TEMPORARY}*"), *folder.path.glob(f"*/{TEMPORARY}*")):
            left.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def read_file(path: str | Path) -> bytes:
    """The bytes of a file that the user named."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read ({error.strerror}). Check the path.") from error


def parse_json(data: bytes | str, whose: str) -> Any:
    """Parse JSON; the `ConfigError` says which file is broken and where."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{whose} is not valid JSON ({error}). Restore it.") from error


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers, text, lists and dicts; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(value.tolist())

"""A run is a folder that explains itself. This is the only place that touches the disk.

Every file appears whole or not at all: it is written beside its place, synced, and moved there. A folder that holds a
run is never taken for another, nothing is written outside it, and reading it executes nothing.
"""

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
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
        """Where a file of the run is: in its folder. Other names are refused, and so are links that lead away."""
        if not NAME.fullmatch(name) or ".." in name:
            raise ConfigError(f"file name {name!r}: letters, digits, '_', '-' and '.' are wanted. Choose another name.")
        place = self.path / name
        if place.parent != self.path and place.parent.is_symlink():
            raise ConfigError(f"{place.parent} is a link to elsewhere: a folder is wanted. Remove the link.")
        return place

    def has(self, name: str) -> bool:
        """Whether the run has written that file."""
        return self.place(name).is_file()

    def write(self, name: str, data: bytes) -> Path:
        """Write a file whole or not at all."""
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
        """The bytes of a file; a `ConfigError` if there is none."""
        place = self.place(name)
        try:
            return place.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{place} cannot be read ({error.strerror}): a run that got that far is wanted. "
                "Check the folder, or finish the run with --resume."
            ) from error

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        self.place(name).unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> Path:
        """Write JSON that any reader takes: numbers that are not finite become null."""
        return self.write(name, (json.dumps(plain(value), indent=2, allow_nan=False) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """Read JSON; a `ConfigError` if it is none."""
        return parse_json(self.read(name), str(self.place(name)))

    def write_log(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write log.jsonl, one row a line."""
        lines = [json.dumps(plain(row), allow_nan=False) + "\n" for row in rows]
        self.write(LOG, "".join(lines).encode())

    def read_log(self) -> list[dict[str, Any]]:
        """The rows of log.jsonl; none if there is no log yet."""
        if not self.has(LOG):
            return []
        whose = str(self.place(LOG))
        rows = [parse_json(line, whose) for line in self.read(LOG).splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{whose} is damaged: a JSON object a line is wanted. Delete it: a run goes on without.")
        return rows

    def save(self, name: str, tree: PyTree, notes: Mapping[str, Any] | None = None) -> Path:
        """Save the arrays of a tree."""
        return self.write(name, tensors.encode(tree, notes))

    def load(self, name: str, skeleton: PyTree, *, finite: bool = True) -> PyTree:
        """Load what was saved, in the structure of ``skeleton``."""
        return tensors.decode(self.read(name), skeleton, str(self.place(name)), finite=finite)

    def save_picture(self, name: str, png: bytes) -> Path:
        """Save a picture under figures/."""
        return self.write(f"figures/{name}.png", png)


def create(path: str | Path) -> Folder:
    """Make the folder of a new run, or refuse one in which something is already."""
    folder = Folder(Path(path))
    check_free(folder.path)
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"output folder {str(path)!r} cannot be made ({error.strerror}): a writable place is wanted. "
            "Choose another --out."
        ) from error
    return folder


def check_free(path: Path) -> None:
    """Refuse a place that holds another run, or anything else."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise ConfigError(f"output folder {str(path)!r} is a file: a new folder is wanted. Choose another --out.")
    if (path / CONFIG).exists():
        raise ConfigError(
            f"output folder {str(path)!r} already holds a run: a new folder is wanted. "
            "Choose another --out, or continue that run with --resume."
        )
    if any(not entry.name.startswith(TEMPORARY) for entry in path.iterdir()):
        raise ConfigError(f"output folder {str(path)!r} is not empty: a new folder is wanted. Choose another --out.")


def open_run(path: str | Path) -> Folder:
    """The folder of a run that exists."""
    folder = Folder(Path(path))
    if not folder.place(CONFIG).is_file():
        raise ConfigError(
            f"{str(path)!r} holds no run: a folder with a {CONFIG} is wanted. "
            "Check the path, or make one with `edl run`."
        )
    return folder


@contextlib.contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Keep other processes from continuing the same run; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there, nothing watches
        yield
        return
    handle = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in (*folder.path.glob(f"{TEMPORARY}*"), *folder.path.glob(f"*/{TEMPORARY}*")):
            left.unlink(missing_ok=True)
        yield
    except BlockingIOError as error:
        raise ConfigError(
            f"run {str(folder.path)!r} is under way in another process: only one can work on it. "
            "Wait for it or stop it."
        ) from error
    finally:
        os.close(handle)


def read_file(path: str | Path) -> bytes:
    """A file of the user's."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be read ({error.strerror}): a file is wanted. Check the path."
        ) from error


def parse_json(data: bytes | str, whose: str) -> Any:
    """Parse JSON, or say whose is broken and where."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{whose} is not JSON ({error}): a file that edl wrote is wanted. Restore it.") from error


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts, as JSON has them; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(value.tolist())

"""The folder of a run. This is the only module that writes to disk.

Every file appears whole or not at all: it is written to a temporary file, synced, and renamed. A folder that holds a
run is never overwritten by another, nothing is written outside of it, and reading it executes nothing. A process that
writes to a run holds its lock from before the first write, and every file that is read is compared with its hash in
manifest.json (see `edl.runs.manifest`).
"""

import contextlib
import errno
import json
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from edl.config import ConfigError
from edl.runs import manifest, tensors
from edl.runs.errors import RetryableError
from edl.runs.manifest import ABSENT, MANIFEST, Hashes

CONFIG = "config.json"
METRICS = "metrics.json"
LOG = "log.jsonl"
PROVENANCE = "provenance.json"
REPORT = "report.html"
CHECKPOINT = "checkpoint/state.safetensors"
PREVIOUS_CHECKPOINT = "checkpoint/previous.safetensors"
"""The checkpoint before the last one, for the case that the last one is damaged."""
PROGRESS = "checkpoint/progress.json"
NAME = re.compile(r"(?:(?:checkpoint|figures)/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")
TEMPORARY = ".part-"
POINTS = "points"
"""The folder of the runs, in the folder of a sweep."""
SWEEP = "sweep.json"
"""The grid of a sweep as the user wrote it."""
UNLOCKABLE = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks for folders, such as some network file systems."""
LOCK_POLL_SECONDS = 0.1
MAX_SETTINGS_BYTES = 64 * 2**20
READ_ATTEMPTS = 3
"""How often a file is read if its hash differs: the process that owns the run may replace it meanwhile."""
REMEDIES = {
    CONFIG: "Restore it from a copy. To change settings, start a new run with `edl run --config`.",
    PROVENANCE: "Restore it from a copy, or delete it: `edl run --resume` writes it again.",
    METRICS: "Restore it from a copy, or compute it again with `edl evaluate`.",
    LOG: "Restore it from a copy, or delete it: the run can continue without it.",
    CHECKPOINT: "Delete it: `edl run --resume` then starts from the checkpoint before, or from the start of the stage.",
    PREVIOUS_CHECKPOINT: "Delete it: `edl run --resume` then starts from the start of the stage.",
    PROGRESS: "Restore it from a copy, or delete it: `edl run --resume` then computes all stages again.",
}
"""How to repair each file of a run."""
OTHER_REMEDY = "Restore it from a copy, or delete it: `edl run --resume` computes it again."


def remedy(name: str) -> str:
    """How to repair a damaged file of a run."""
    return REMEDIES.get(name, OTHER_REMEDY)


class Folder:
    """The folder of one run. If it has a manifest, every write is recorded there, and every read is checked.

    With ``verify=False`` the manifest is ignored: for `edl check`, which compares the hashes itself.
    """

    def __init__(self, path: Path, *, verify: bool = True):
        self.path, self.verify = path, verify
        self.settled: dict[str, str] = {}  # the hashes of files that this process has replaced

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

    def write(self, name: str, data: bytes, *, keep_as: str | None = None) -> Path:
        """Write a file. The file that it replaces is deleted, or kept under the name ``keep_as``."""
        place = self.place(name)
        place.parent.mkdir(exist_ok=True)
        kept = None if keep_as is None or not place.is_file() else self.place(keep_as)
        temporary = place.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            _write_synced(temporary, data)
            self._record(name, manifest.hash_of(data), keep_as if kept is not None else None)
            if kept is not None:
                os.replace(place, kept)
            os.replace(temporary, place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self.settled[name] = manifest.hash_of(data)
        _sync_folder(place.parent)
        return place

    def start_manifest(self) -> None:
        """Record the hash of every file from now on."""
        self._write_manifest({})

    def hashes(self) -> Hashes | None:
        """The hashes of all recorded files; None if the folder has no manifest."""
        place = self.path / MANIFEST
        if not self.verify:
            return None
        try:
            data = place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RetryableError(f"{place} cannot be read ({error.strerror}). Check the folder.") from error
        return manifest.parse(data, str(place))

    def settle(self) -> None:
        """Drop the hashes of files that have been replaced."""
        files = self.hashes() if self.settled else None
        if files is not None and any(files.get(name) != [digest] for name, digest in self.settled.items()):
            self._write_manifest(files)

    def _record(self, name: str, digest: str, kept: str | None) -> None:
        files = self.hashes()
        if files is None:
            return
        current = [self.settled[name]] if name in self.settled else files.get(name, [ABSENT])
        if kept is not None:
            files[kept] = list(dict.fromkeys([*current, *files.get(kept, []), ABSENT]))
            self.settled.pop(kept, None)
            current = [*current, ABSENT]
        files[name] = list(dict.fromkeys([digest, *current]))
        self.settled.pop(name, None)
        self._write_manifest(files)

    def _write_manifest(self, files: Hashes) -> None:
        recorded = {name: [self.settled[name]] if name in self.settled else each for name, each in files.items()}
        place, temporary = self.path / MANIFEST, self.path / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            _write_synced(temporary, manifest.dump(recorded))
            os.replace(temporary, place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.path)

    def read(self, name: str) -> bytes:
        """The bytes of a file; a `ConfigError` if it cannot be read, or if it is not as the run wrote it."""
        for _ in range(READ_ATTEMPTS):
            data = self.read_unverified(name)
            expected = (self.hashes() or {}).get(name)
            if expected is None or manifest.hash_of(data) in expected:
                return data
        raise RetryableError(
            f"{self.place(name)} is damaged or was changed: it is not as the run wrote it. {remedy(name)}"
        )

    def read_unverified(self, name: str) -> bytes:
        """The bytes of a file, whatever its hash is."""
        place = self.place(name)
        try:
            return place.read_bytes()
        except OSError as error:
            raise RetryableError(
                f"{place} cannot be read ({error.strerror}). Check the folder, or finish the run with --resume."
            ) from error

    def remove(self, *names: str) -> None:
        """Delete files, if they exist."""
        files = self.hashes()
        if files is not None and any(name in files for name in names):
            for name in names:
                self.settled.pop(name, None)
            self._write_manifest({name: each for name, each in files.items() if name not in names})
        for name in names:
            self.place(name).unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> Path:
        """Write standard JSON: NaN and infinity become null."""
        return self.write(name, (json.dumps(plain(value), indent=2, allow_nan=False) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """Read JSON; a `ConfigError` if it is not valid."""
        return parse_json(self.read(name), str(self.place(name)), remedy(name))

    def write_log(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write log.jsonl, one row per line."""
        lines = [json.dumps(plain(row), allow_nan=False) + "\n" for row in rows]
        self.write(LOG, "".join(lines).encode())

    def read_log(self) -> list[dict[str, Any]]:
        """The rows of log.jsonl; none if there is no log yet."""
        if not self.has(LOG):
            return []
        whose = str(self.place(LOG))
        rows = [parse_json(line, whose, remedy(LOG)) for line in self.read(LOG).splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise RetryableError(f"{whose} is damaged: every line must be a JSON object. {remedy(LOG)}")
        return rows

    def save(self, name: str, tree: PyTree, notes: Mapping[str, Any] | None = None) -> Path:
        return self.write(name, tensors.encode(tree, notes))

    def save_checkpoint(self, tree: PyTree, notes: Mapping[str, Any]) -> Path:
        """Save a checkpoint, and keep the one before it."""
        return self.write(CHECKPOINT, tensors.encode(tree, notes), keep_as=PREVIOUS_CHECKPOINT)

    def load(self, name: str, skeleton: PyTree, *, finite: bool = True, optional: Collection[str] = ()) -> PyTree:
        """Load a tree that `save` wrote, in the structure of ``skeleton``; ``optional`` fields may be missing."""
        whose = str(self.place(name))
        return tensors.decode(self.read(name), skeleton, whose, finite=finite, optional=optional)

    def save_picture(self, name: str, png: bytes) -> Path:
        """Save a picture under figures/."""
        return self.write(f"figures/{name}.png", png)


def create(path: str | Path) -> Folder:
    """Create the folder of a new run; reject one that is not empty."""
    check_free(Path(path))
    return make_folder(path)


def make_folder(path: str | Path) -> Folder:
    """A folder, created if it does not exist."""
    folder = Folder(Path(path))
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
    # A process that was killed between its first two writes leaves temporary files or an empty manifest.
    if any(not entry.name.startswith(TEMPORARY) and entry.name != MANIFEST for entry in path.iterdir()):
        raise ConfigError(f"output folder {str(path)!r} is not empty. Choose another --out.")


def open_run(path: str | Path) -> Folder:
    """The folder of an existing run."""
    folder = Folder(Path(path))
    if not folder.place(CONFIG).is_file():
        raise ConfigError(
            f"{str(path)!r} holds no run: it has no {CONFIG}. Check the path, or start a run with `edl run`."
        )
    return folder


def move_run(folder: Folder, path: Path) -> None:
    """Move a run that is whole to a free path on the same file system, where it appears at once."""
    check_free(path)
    path = path.resolve()
    if path.is_dir():
        shutil.rmtree(path)  # it is free: empty, or with the remnants of a process that was killed
    os.replace(folder.path, path)
    _sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Folder]:
    """Create the folder of a new run, locked. Of two processes that start in one folder, one is rejected."""
    folder = create(path)
    with locked(folder):
        check_free(folder.path)  # another process may have started a run here before this one got the lock
        yield folder


@contextlib.contextmanager
def locked(folder: Folder, *, shared: bool = False) -> Iterator[None]:
    """Keep other processes from working on the same run. The lock ends with this process.

    Many processes may hold a ``shared`` lock, to read files that belong together; nobody can write meanwhile. The run
    of a point of a sweep cannot be locked while the sweep is running.
    """
    with contextlib.ExitStack() as locks:
        parent = folder.path.absolute().parent
        if parent.name == POINTS and (parent.parent / SWEEP).is_file():
            locks.enter_context(_folder_lock(parent.parent, shared=True))
        locks.enter_context(_folder_lock(folder.path, shared))
        if shared:
            yield
            return
        remove_remnants(folder.path)
        yield
        folder.settle()


@contextlib.contextmanager
def locked_when_free(path: Path, seconds: float) -> Iterator[None]:
    """Lock a folder; wait so long for a process that holds the lock, e.g. because it is about to end."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as lock:
        while True:
            try:
                lock.enter_context(_folder_lock(path, shared=False))
                break
            except ConfigError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOCK_POLL_SECONDS)
        remove_remnants(path)
        yield


def remove_remnants(path: Path) -> None:
    """Delete the temporary files that a process left when it was killed."""
    for left in (*path.glob(f"{TEMPORARY}*"), *path.glob(f"*/{TEMPORARY}*")):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def _folder_lock(path: Path, shared: bool) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows has no flock: runs are not locked there
        yield
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise RetryableError(f"{str(path)!r} cannot be opened ({error.strerror}). Check the path.") from error
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RetryableError(f"another process is working on {str(path)!r}. Wait for it, or stop it.") from error
        except OSError as error:
            if error.errno not in UNLOCKABLE:
                raise
        yield
    finally:
        os.close(handle)


def check_writable(path: Path) -> None:
    """Reject the path of a file that cannot be written, before the work that it is for."""
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {str(path.parent)!r} does not exist. Create it, or choose another --out.")
    if path.is_dir():
        raise ConfigError(f"--out must be a file ({str(path)!r} is a folder). Choose another --out.")


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user named, whole or not at all."""
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Make renames in a folder last through a power failure."""
    if os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_file(path: str | Path) -> bytes:
    """The bytes of a file of settings that the user named."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SETTINGS_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{str(path)!r} cannot be read ({reason}). Check the path.") from error
    if len(data) > MAX_SETTINGS_BYTES:  # a device such as /dev/zero has no end
        raise ConfigError(f"{str(path)!r} has over {MAX_SETTINGS_BYTES // 2**20} MiB. Check the path.")
    return data


def parse_json(data: bytes | str, whose: str, remedy: str = "Restore it, or fix it.") -> Any:
    """Parse JSON; the `ConfigError` says which file is broken and where."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RetryableError(f"{whose} is not valid JSON ({error}). {remedy}") from error


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

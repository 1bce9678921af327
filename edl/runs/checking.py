"""Check every file of a run: whether it is there, whole, as the run wrote it, and made with the run's settings."""

from pathlib import Path
from typing import Literal, NamedTuple

from edl.config import ConfigError
from edl.runs import manifest, store, tensors
from edl.runs.binding import check_bound
from edl.runs.config import RunConfig
from edl.runs.manifest import ABSENT, MANIFEST, Hashes
from edl.runs.pipeline import plan
from edl.runs.provenance import read_provenance
from edl.runs.result import check_metrics, saved_config
from edl.runs.session import read_progress
from edl.runs.store import Folder

State = Literal["ok", "not checked", "not recorded", "missing", "damaged"]
BAD: tuple[State, ...] = ("missing", "damaged")
SUBFOLDERS = ("checkpoint", "figures")
NO_MANIFEST = (
    "This run has no manifest.json: it was made by an earlier version of edl. Its .safetensors files have checksums of "
    "their own. Damage to its other files is found only if they cannot be read."
)
LOST_MANIFEST = (
    "This run has no manifest.json, but it had one. Damage to files that are not .safetensors is found only if they "
    "cannot be read."
)


class FileState(NamedTuple):
    """The state of one file, and what to know about it."""

    name: str
    state: State
    note: str = ""


class Report(NamedTuple):
    """The states of all files of a run, and remarks about the whole folder."""

    files: list[FileState]
    remarks: list[str]

    @property
    def bad(self) -> list[FileState]:
        return [each for each in self.files if each.state in BAD]


def check_run(path: str | Path) -> Report:
    """Check every file of a run. Nothing is changed. The run must not be in use."""
    folder = store.open_run(path)
    with store.locked(folder, shared=True):
        try:
            hashes, first = folder.hashes(), []
        except ConfigError as error:
            hashes, first = None, [FileState(MANIFEST, "damaged", str(error))]
        folder = Folder(folder.path, verify=False)
        names = [name for name in files_in(folder) if name != MANIFEST]
        missing = [name for name, each in (hashes or {}).items() if name not in names and ABSENT not in each]
        config = _config(folder, hashes or {})
        files = [check_file(folder, name, hashes, config) for name in names]
        files += [FileState(name, "missing", f"The run wrote it. {store.remedy(name)}") for name in missing]
        files += [each for each in _missing_artifacts(folder, config) if each.name not in missing]
        if hashes is not None:
            files.append(FileState(MANIFEST, "ok"))
        return Report(sorted([*first, *files]), [] if hashes is not None or first else [_without_manifest(folder)])


def files_in(folder: Folder) -> list[str]:
    """The files that may belong to the run, and temporary files that a killed process left."""
    found = [place.name for place in folder.path.iterdir() if place.is_file()]
    for name in SUBFOLDERS:
        if (folder.path / name).is_dir():
            found += [f"{name}/{place.name}" for place in (folder.path / name).iterdir() if place.is_file()]
    return sorted(found)


def check_file(folder: Folder, name: str, hashes: Hashes | None, config: RunConfig | None) -> FileState:
    """The state of one file that exists."""
    if Path(name).name.startswith(store.TEMPORARY):
        return FileState(name, "not recorded", "A process was killed while it wrote. The next command deletes it.")
    try:
        data = folder.read_unverified(name)
    except ConfigError as error:
        return FileState(name, "damaged", str(error))
    recorded = (hashes or {}).get(name)
    if recorded is not None and manifest.hash_of(data) not in recorded:
        return FileState(name, "damaged", f"It is not as the run wrote it. {store.remedy(name)}")
    try:
        checked = check_content(folder, name, data, config)
    except ConfigError as error:
        return FileState(name, "damaged", str(error))
    if recorded is not None:
        return FileState(name, "ok")
    if hashes is not None:
        return FileState(name, "not recorded", "The run did not write it.")
    return FileState(name, "ok" if checked else "not checked")


def check_content(folder: Folder, name: str, data: bytes, config: RunConfig | None) -> bool:
    """Reject contents that cannot be used. Whether the file has a checksum of its own."""
    whose = str(folder.place(name))
    if name.endswith(".safetensors"):
        tensors.arrays_of(data, whose)
        stage = next((each for each in plan(config) if each.file == name), None) if config is not None else None
        if stage is not None and config is not None:
            check_bound(folder, stage, config, data)
        return True
    if name == store.CONFIG:
        saved_config(folder)
    elif name == store.PROVENANCE:
        read_provenance(folder)
    elif name == store.PROGRESS:
        read_progress(folder)
    elif name == store.LOG:
        folder.read_log()
    elif name == store.METRICS:
        check_metrics(store.parse_json(data, whose, store.remedy(name)), whose)
    elif name.endswith(".json"):
        store.parse_json(data, whose, store.remedy(name))
    return False


def _config(folder: Folder, hashes: Hashes) -> RunConfig | None:
    """The config of the run; None if it is damaged, which is reported with its file and not with the artifacts."""
    try:
        digest = manifest.hash_of(folder.read_unverified(store.CONFIG))
        return saved_config(folder) if digest in hashes.get(store.CONFIG, [digest]) else None
    except ConfigError:
        return None


def _missing_artifacts(folder: Folder, config: RunConfig | None) -> list[FileState]:
    """The artifacts of finished stages that are not there."""
    try:
        finished = read_progress(folder)
    except ConfigError:
        return []
    stages = [] if config is None else [each for each in plan(config) if each.name in finished and each.field]
    return [
        FileState(stage.file, "missing", f"Stage {stage.name!r} is finished. {store.remedy(stage.file)}")
        for stage in stages
        if not folder.has(stage.file)
    ]


def _without_manifest(folder: Folder) -> str:
    try:
        return LOST_MANIFEST if "folder_format" in read_provenance(folder) else NO_MANIFEST
    except ConfigError:
        return LOST_MANIFEST

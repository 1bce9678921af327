"""Artifacts are bound to the config of their run: each stores a digest of the settings that it was made with.

The digest is computed from config.json as it is on disk, so it does not depend on the version of edl that reads it. It
covers the settings of the stage and of the stages before it. A later stage may add or change its own settings.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from jaxtyping import PyTree

from edl.runs import store, tensors
from edl.runs.config import RunConfig
from edl.runs.errors import RetryableError
from edl.runs.pipeline import Stage, plan
from edl.runs.store import Folder

NOTE = "config"
"""The note of an artifact that holds the digest."""
ALWAYS = ("env", "maze", "features", "horizon", "method", "seed", "num_seeds", "region")
"""Settings, as paths in config.json, that every artifact depends on. Those of a stage are its ``config_paths``."""


def config_digest(stage: Stage, config: RunConfig, saved: Mapping[str, Any]) -> str:
    """A hash of the settings in ``saved``, the contents of config.json, that the artifact of a stage depends on."""
    stages = {each.name: each for each in plan(config)}
    names, todo = set(), [stage.name]
    while todo:
        name = todo.pop()
        names.add(name)
        todo += [each for each in stages[name].takes if each in stages and each not in names]
    paths = sorted({*ALWAYS, *(path for name in names for path in stages[name].config_paths)})
    chosen = [[path, _setting(saved, path)] for path in paths]
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def save_artifact(folder: Folder, stage: Stage, config: RunConfig, artifact: PyTree) -> None:
    """Save the artifact of a stage with the digest of its settings."""
    digest = config_digest(stage, config, folder.read_json(store.CONFIG))
    folder.save(stage.file, artifact, {NOTE: digest})


def check_bound(folder: Folder, stage: Stage, config: RunConfig, data: bytes) -> None:
    """Reject an artifact that was made with other settings than config.json has now. Older files have no digest."""
    place = folder.place(stage.file)
    found = tensors.notes_of(data, str(place)).get(NOTE)
    if found is not None and found != config_digest(stage, config, folder.read_json(store.CONFIG)):
        raise RetryableError(
            f"{place} was made with other settings than those in {folder.place(store.CONFIG)}. "
            f"Restore {store.CONFIG} from a copy. To use other settings, start a new run."
        )


def _setting(saved: Any, path: str) -> Any:
    for word in path.split("."):
        saved = saved.get(word) if isinstance(saved, Mapping) else None
    return saved

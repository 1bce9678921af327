"""Seeds run in parts, one after the other, where a CPU has fewer cores than there are seeds, or too little memory.

A part is a batch of lanes (`edl.runs.lanes`). The checkpoint of a stage has the number of the part that is running. The
artifacts of finished parts are in files of their own until the last one is finished, so that nothing is computed again
after an interruption.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from edl.config import ConfigError
from edl.runs import store, tensors
from edl.runs.config import RunConfig
from edl.runs.driver import Work, first_lanes, outline
from edl.runs.errors import RetryableError
from edl.runs.store import Folder


class Part(NamedTuple):
    """One part of the seeds of a run: its number, and the number of lanes in each part."""

    number: int
    width: int

    def lanes(self, total: int) -> Int[np.ndarray, " w"]:
        """The lanes of this part. The last part repeats its last lane, so that all parts have one program."""
        return np.minimum(np.arange(self.number * self.width, (self.number + 1) * self.width), total - 1)

    def count(self, total: int) -> int:
        """The number of lanes that are not repetitions."""
        return len(np.unique(self.lanes(total)))

    def seeds(self, config: RunConfig) -> str:
        """The first and the last seed of this part; nothing if it has all seeds."""
        if self.width == config.num_seeds:
            return ""
        first = config.seed + self.number * self.width
        return f"{first}-{first + self.count(config.num_seeds) - 1}"

    @property
    def file(self) -> str:
        return f"checkpoint/part_{self.number:04d}.safetensors"


def parts_of(total: int, width: int) -> list[Part]:
    return [Part(number, width) for number in range(-(-total // width))]


def save_part(folder: Folder, part: Part, artifact: PyTree, notes: Mapping[str, Any]) -> None:
    """Save the artifact of a finished part."""
    folder.save(part.file, artifact, {**notes, "width": part.width})


def load_part(
    folder: Folder, part: Part, work: Work, total: int, identity: str
) -> tuple[PyTree, dict[str, Any]] | None:
    """The artifact of a part and its notes; None if it has to be computed."""
    if not folder.has(part.file):
        return None
    whose, data = str(folder.place(part.file)), folder.read(part.file)
    notes = tensors.notes_of(data, whose)
    if notes.get("identity") != identity or notes.get("width") != part.width:
        return None
    skeleton = outline(work, part.width).artifact
    shapes = jax.eval_shape(lambda tree: first_lanes(tree, part.count(total)), skeleton)
    if not isinstance(notes.get("rows"), list) or not isinstance(notes.get("spent"), dict):
        raise RetryableError(f"{whose} is damaged: its notes are invalid. {store.remedy(part.file)}")
    return tensors.decode(data, shapes, whose, finite=False), notes


def saved_width(folder: Folder | None, identity: str, total: int) -> int | None:
    """The width of the parts of a stage that was interrupted: of its first part, or of its checkpoint."""
    if folder is None:
        return None
    for name in (Part(0, 1).file, store.CHECKPOINT, store.PREVIOUS_CHECKPOINT):
        try:
            notes = tensors.notes_of(folder.read(name), name) if folder.has(name) else {}
        except ConfigError:  # it is reported where it is needed
            continue
        width = notes.get("width")
        if notes.get("identity") == identity and isinstance(width, int) and 1 <= width <= total:
            return width
    return None


def joined(artifacts: Sequence[PyTree]) -> PyTree:
    """The artifacts of all parts as one."""
    if len(artifacts) == 1:
        return artifacts[0]
    return jax.tree.map(lambda *leaves: jax.numpy.concatenate(leaves), *artifacts)

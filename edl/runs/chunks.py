"""The plan of a sweep: chunks of lanes that run together, in the order in which they need each other.

A chunk has the points of a group (`edl.runs.points`) whose lanes fill one device, and the stages that they run. If
points share early stages, e.g. because they differ only in how they learn, these stages are chunks of their own, which
other chunks need. The plan depends on the grid and on the number of lanes per chunk, and on nothing else: not on the
executor, the number of workers, or what has finished. So the same lanes always run side by side.
"""

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from edl.runs.config import RunConfig
from edl.runs.pipeline import Stage, identity, plan

LANES = {"cpu": 1}
"""Lanes per chunk on a CPU core, which trains one lane faster than several at a time. In a process that has its
programs, a chunk costs less than 0.1 s of CPU time more than its lanes: see "Sizing" in docs/cluster.md."""
LANES_ON_ACCELERATOR = 256


class ChunkPoint(NamedTuple):
    """A point of a chunk: the name of its folder, and the config of its run."""

    name: str
    config: RunConfig


class Chunk(NamedTuple):
    """Points of one group that run the stages up to ``until`` together. ``last``: they are then evaluated.

    Chunks with the same ``program`` share compiled programs: ``widths`` has the lanes of each stage, and ``envs`` one
    config for each env of the group, whose mazes are padded to one shape. The chunks in ``needs`` have to finish first.
    """

    name: str
    points: tuple[ChunkPoint, ...]
    until: str
    last: bool
    program: str
    widths: dict[str, int]
    envs: tuple[RunConfig, ...]
    needs: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """The lanes whose runs this chunk completes."""
        return sum(point.config.num_seeds for point in self.points) if self.last else 0


def lanes_per_chunk(backend: str) -> int:
    return LANES.get(backend, LANES_ON_ACCELERATOR)


def plan_chunks(groups: Sequence[Sequence[ChunkPoint]], lanes: int, prefix: str = "") -> list[Chunk]:
    """The chunks of all groups. ``lanes`` is the maximum per chunk; a chunk has at least one point."""
    return [
        chunk
        for number, group in enumerate(groups)
        for chunk in _chunks_of_group(group, lanes, f"{prefix}{number:03d}")
    ]


def _chunks_of_group(group: Sequence[ChunkPoint], lanes: int, title: str) -> Iterator[Chunk]:
    made_by: dict[str, str] = {}  # the last chunk of each point
    segments = list(_segments(group))
    envs = tuple({(point.config.env, point.config.maze): point.config for point in group}.values())
    for number, stages in enumerate(segments):
        program = f"{title}-{number}"
        owners: dict[Hashable, list[ChunkPoint]] = {}
        for point in group:
            owners.setdefault(_key(stages, point), []).append(point)
        batches = _batches(list(owners.values()), lanes)
        known = [stage for earlier in segments[: number + 1] for stage in earlier]
        widths = {stage.name: max(_width(stage, itertools.chain(*batch)) for batch in batches) for stage in known}
        for index, batch in enumerate(batches):
            points = tuple(itertools.chain(*batch))
            needs = tuple(dict.fromkeys(made_by[point.name] for point in points if point.name in made_by))
            name = f"{program}-{index:04d}"
            made_by |= dict.fromkeys([point.name for point in points], name)
            last = number == len(segments) - 1
            yield Chunk(name, points, stages[-1].name, last, program, widths, envs, needs)


def _segments(group: Sequence[ChunkPoint]) -> Iterator[list[Stage]]:
    """Stages in a row that the same points share. A segment ends with a stage whose artifact is kept."""
    segment: list[Stage] = []
    sharing: list[list[int]] = []
    for stage in plan(group[0].config):
        if stage.temporary:
            segment.append(stage)
            continue
        now = _sharing(stage, group)
        kept = [each for each in segment if not each.temporary]
        if kept and now != sharing:
            cut = segment.index(kept[-1]) + 1
            yield segment[:cut]
            segment = segment[cut:]
        segment.append(stage)
        sharing = now
    yield segment


def _sharing(stage: Stage, group: Sequence[ChunkPoint]) -> list[list[int]]:
    """The numbers of the points that share the artifact of a stage."""
    owners: dict[str, list[int]] = {}
    for number, point in enumerate(group):
        owners.setdefault(identity(stage, point.config), []).append(number)
    return list(owners.values())


def _key(stages: Sequence[Stage], point: ChunkPoint) -> Hashable:
    return tuple(identity(stage, point.config) for stage in stages if not stage.temporary)


def _width(stage: Stage, points: Iterator[ChunkPoint]) -> int:
    """The lanes of a stage, of which points with the same identity share one per seed."""
    return sum({identity(stage, point.config): point.config.num_seeds for point in points}.values())


def _batches(owners: Sequence[Sequence[ChunkPoint]], lanes: int) -> list[list[Sequence[ChunkPoint]]]:
    """Owners of an artifact in batches of about equally many lanes, at most ``lanes`` unless one owner has more."""
    total = sum(users[0].config.num_seeds for users in owners)
    most = math.ceil(total / math.ceil(total / lanes))
    batches: list[list[Sequence[ChunkPoint]]] = []
    filled = 0
    for users in owners:
        seeds = users[0].config.num_seeds
        if not batches or filled >= most or filled + seeds > lanes:
            batches.append([])
            filled = 0
        batches[-1].append(users)
        filled += seeds
    return batches

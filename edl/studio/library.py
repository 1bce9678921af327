"""The runs in a folder: their names, how far they are, and what a page may read of them."""

import json
import re
from pathlib import Path
from typing import Any

from edl.config import ConfigError
from edl.runs import store
from edl.runs.store import Folder
from edl.studio.live import LIVE

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
MAX_RUNS = 500
"""Maximum number of runs in the list: the newest."""
MAX_ROWS = 200
"""Maximum number of points of a curve."""
SHOWN = ("env", "method", "explore", "discover", "num_skills", "num_seeds")
"""Settings that the list of runs shows."""
PANEL = re.compile(r'<script type="application/json" id="studio-data">(.*?)</script>', re.DOTALL)


class NoSuchRunError(Exception):
    """A run that is not in the folder."""


def check_run_name(name: Any) -> str:
    """A name that is safe as the name of a folder."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(
            f"the name of a run must have 1 to 64 letters, digits, '_' or '-' (got {str(name)[:80]!r}). Change it."
        )
    return name


def find_run(runs: Path, name: str) -> Folder:
    """The folder of a run. A name that leads anywhere else is not the name of a run, and a link is not followed."""
    path = runs / name
    if not NAME.fullmatch(name) or path.is_symlink() or not (path / store.CONFIG).is_file():
        raise NoSuchRunError(f"there is no run {name[:80]!r}.")
    return Folder(path)


def read_inside(folder: Folder, name: str) -> bytes:
    """A file of a run, which must not be a link to a place outside of the run."""
    path = folder.place(name)
    if not path.is_file() or not path.resolve().is_relative_to(folder.path.resolve()):
        raise NoSuchRunError(f"run {folder.path.name!r} has no file {name!r}.")
    return folder.read(name)


def run_names(runs: Path) -> list[str]:
    """The names of the runs, the newest first."""
    found = [path for path in runs.iterdir() if NAME.fullmatch(path.name) and not path.is_symlink()]
    found = [path for path in found if (path / store.CONFIG).is_file()]
    newest = sorted(found, key=lambda path: (path / store.CONFIG).stat().st_mtime, reverse=True)
    return [path.name for path in newest[:MAX_RUNS]]


def is_done(folder: Folder) -> bool:
    return folder.has(store.METRICS) and folder.has(store.REPORT)


def is_locked(folder: Folder) -> bool:
    """Whether a process works on the run."""
    try:
        with store.locked(folder, shared=True):
            return False
    except ConfigError:
        return True


def summary(folder: Folder, status: str) -> dict[str, Any]:
    """A line of the list of runs."""
    facts: dict[str, Any] = {"name": folder.path.name, "status": status, "thumbnail": folder.has("figures/skills.png")}
    try:
        config = folder.read_json(store.CONFIG)
        facts |= {name: config.get(name) for name in SHOWN}
        if folder.has(store.METRICS):
            aggregate = folder.read_json(store.METRICS).get("aggregate") or {}
            facts["goal_success"] = (aggregate.get("goal_success") or {}).get("mean")
    except (ConfigError, AttributeError) as error:
        facts |= {"status": "damaged", "message": str(error)}
    return facts


def details(folder: Folder, status: str) -> dict[str, Any]:
    """What the page of a run shows besides the live view."""
    facts = summary(folder, status)
    if facts["status"] == "damaged":
        return facts
    config = folder.read_json(store.CONFIG)
    rows = folder.read_log()
    return facts | {
        "region": config.get("region"),
        "seed": config.get("seed"),
        "rows": rows[:: max(1, len(rows) // MAX_ROWS)],
        "maze": _maze_of(config),
    }


def _maze_of(config: dict[str, Any]) -> dict[str, Any] | None:
    """The maze of a run for drawing; None for other envs."""
    from edl.figures.panel import maze_json
    from edl.interop.env_names import layout_for

    layout = layout_for(config["env"], config.get("maze"))
    return None if layout is None else maze_json(layout)


def live_text(folder: Folder) -> str | None:
    """The content of live.json, if there is one."""
    try:
        return folder.place(LIVE).read_text("utf-8")
    except OSError:
        return None


def panel_of_report(folder: Folder) -> list[Any] | None:
    """The data of the interactive panel in the report of a run."""
    found = PANEL.search(read_inside(folder, store.REPORT).decode("utf-8"))
    return None if found is None else json.loads(found[1])

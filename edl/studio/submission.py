"""A new run from what a page sends: checked, and created as a run folder that a worker continues."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edl import baselines, discover, explore
from edl.config import ConfigError, check, check_name
from edl.envs import layouts
from edl.figures.panel import maze_json
from edl.runs.config import NESTED
from edl.runs.pipeline import outlines
from edl.runs.presets import RECIPES, from_json
from edl.runs.resolve import make_context, resolve_config, with_dataset
from edl.runs.run import create_run
from edl.studio.library import check_run_name

FIELDS = {"name", "maze", "env", "method", "explore", "discover", "preset", "num_skills", "num_seeds", "seed", "region"}
MAX_SKILLS, MAX_SEEDS = 200, 20
PLACE = re.compile(r"row (\d+), column (\d+)")


def choices() -> dict[str, Any]:
    """What a run can be made of, and the mazes to start from."""
    return {
        "methods": ["edl", *baselines.METHODS],
        "explorers": list(explore.METHODS),
        "discoverers": list(discover.METHODS),
        "presets": list(RECIPES),
        "templates": {name: (layouts.FOLDER / f"{name}.txt").read_text("utf-8") for name in layouts.NAMES},
    }


def check_maze(text: Any) -> dict[str, Any]:
    """The parsed maze, or what is wrong with it and where (rows and columns count from 1)."""
    check(isinstance(text, str), "the maze must be text.")
    try:
        return {"maze": maze_json(layouts.parse(text, "drawn"))}
    except ConfigError as error:
        place = PLACE.search(str(error))
        row, column = (None, None) if place is None else map(int, place.groups())
        return {"error": str(error), "row": row, "column": column}


def submit(runs: Path, form: Mapping[str, Any]) -> str:
    """Check a run and create its folder. Returns its name."""
    unknown = sorted(set(form) - FIELDS - set(NESTED))
    check(not unknown, f"unknown settings: {', '.join(map(str, unknown))[:200]}. Leave them out.")
    name = check_run_name(form.get("name"))
    check(not (runs / name).exists(), f"there is already a run {name!r}. Choose another name.")
    config = resolve_config(from_json(_settings(name, form), "the form"))
    check(config.num_skills <= MAX_SKILLS, f"num_skills must be at most {MAX_SKILLS} (got {config.num_skills}).")
    check(config.num_seeds <= MAX_SEEDS, f"num_seeds must be at most {MAX_SEEDS} (got {config.num_seeds}).")
    outlines(config, with_dataset(config, make_context(config)))
    create_run(config, runs / name)
    return name


def _settings(name: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """The form as a config.json. Only mazes and registered methods: other names could read files or import code."""
    settings = {key: value for key, value in form.items() if key != "name" and value not in (None, "")}
    if isinstance(settings.get("maze"), str):
        layouts.parse(settings["maze"], name)
        settings["env"] = f"{name}.txt"
    else:
        check_name(str(settings.get("env")), layouts.NAMES, "maze", "Draw a maze, or use one of these.")
    for key, known in (("explore", explore.METHODS), ("discover", discover.METHODS)):
        if key in settings:
            check_name(str(settings[key]), known, key)
    return settings

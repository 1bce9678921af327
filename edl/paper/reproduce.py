"""Reproduce figures of the paper: execute the missing runs, measure, draw, judge the claims, and write an index page.

A folder of results contains, for each figure, its pictures (PNG and SVG) and ``NAME.json`` with numbers and verdicts,
which is written last and marks the figure as finished; and the runs, under ``runs/``, named by their identity. The
figures of the preset ``paper`` are in the subfolder ``paper/``. ``index.html`` and ``verdicts.md`` show the verdicts of
all presets side by side. Finished figures and runs are kept.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import edl
from edl.config import check_name
from edl.paper import FIGURES, NUMBERED
from edl.paper.figure import FigureResult
from edl.paper.progress import ReproductionProgress, SilentReproduction
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.run_cache import RunCache
from edl.runs import store
from edl.runs.executors import Executor
from edl.runs.provenance import provenance
from edl.runs.store import Folder

INDEX = "index.html"
TABLE = "verdicts.md"
RUNS = "runs"
SUBFOLDERS = {"fast": "", "paper": "paper"}
"""Where the figures of each preset are, in the folder of results."""
FORMAT = 2
"""Version of the measurements and of the JSON files. Figures of another version are built again."""
DPI = 110
"""Resolution of the pictures. The files stay small enough for a repository."""


def reproduce(
    names: Sequence[str],
    out: str | Path,
    settings: ReproductionConfig = ReproductionConfig(),
    *,
    redraw: bool = False,
    executor: Executor | None = None,
    progress: ReproductionProgress | None = None,
) -> list[dict[str, Any]]:
    """Create the named figures (``all`` for every one) in the folder ``out``. Returns the contents of their JSON files.

    ``redraw`` builds finished figures again, from the finished runs. Runs are executed in the workers of
    ``executor``, which is closed at the end, or in this process.
    """
    progress = progress or SilentReproduction()
    chosen = expand(names)
    recipes = {name: FIGURES[name].define_runs(settings) for name in chosen}
    root = store.make_folder(out)
    folder = store.make_folder(root.path / SUBFOLDERS[settings.preset])
    pending = [name for name in chosen if redraw or not is_finished(folder, name, recipes[name])]
    with store.locked(root):
        missing = [each for name in pending for each in recipes[name].values()]
        with contextlib.closing(RunCache(root.path / RUNS, missing, progress, executor)) as runs:
            for number, name in enumerate(chosen, 1):
                title = f"[{number}/{len(chosen)}] {name}: {FIGURES[name].title}"
                if name not in pending:
                    progress.message(f"{title}: already finished")
                    continue
                progress.message(title)
                publish(folder, name, recipes[name], runs, settings)
                write_index(root)
        write_index(root)
    return [folder.read_json(f"{name}.json") for name in chosen]


def expand(names: Sequence[str]) -> list[str]:
    """The figures that ``names`` mean, each once. Unknown names are rejected."""
    for name in names:
        check_name(name, ["all", *FIGURES, *NUMBERED], "figure", "`edl reproduce --help` describes each figure.")
    return list(FIGURES) if "all" in names or not names else list(dict.fromkeys(NUMBERED.get(x, x) for x in names))


def publish(
    folder: Folder, name: str, recipes: Mapping[str, Recipe], runs: RunCache, settings: ReproductionConfig
) -> None:
    """Execute the missing runs of a figure, build it, and write its files."""
    began = time.perf_counter()
    result = FIGURES[name].build({label: runs.get(recipe) for label, recipe in recipes.items()})
    for part, (figure, _) in result.pictures.items():
        from edl.figures import to_png, to_svg  # importing matplotlib takes half a second

        folder.write(f"{file_name(name, part)}.png", to_png(figure, dpi=DPI))
        figure.set_dpi(DPI)  # for the rasterised parts of the SVG
        folder.write(f"{file_name(name, part)}.svg", to_svg(figure))
    folder.write_json(f"{name}.json", record(name, recipes, result, settings, time.perf_counter() - began))


def record(
    name: str, recipes: Mapping[str, Recipe], result: FigureResult, settings: ReproductionConfig, seconds: float
) -> dict[str, Any]:
    """The contents of a figure's JSON file."""
    return {
        "figure": name,
        "title": FIGURES[name].title,
        "identity": figure_identity(name, recipes),
        "format": FORMAT,
        "preset": settings.preset,
        "num_seeds": settings.num_seeds,
        "verdicts": [verdict.to_json() for verdict in result.verdicts],
        "pictures": {file_name(name, part): picture.caption for part, picture in result.pictures.items()},
        "runs": {label: f"{RUNS}/{recipe.folder}" for label, recipe in recipes.items()},
        "numbers": result.numbers,
        "seconds": round(seconds, 1),
        "provenance": provenance(),
    }


def is_finished(folder: Folder, name: str, recipes: Mapping[str, Recipe]) -> bool:
    """Whether the figure was already built from the same runs."""
    file = f"{name}.json"
    return folder.has(file) and folder.read_json(file).get("identity") == figure_identity(name, recipes)


def figure_identity(name: str, recipes: Mapping[str, Recipe]) -> str:
    """A hash of the runs of a figure, the version, and the format."""
    runs = {label: recipe.identity for label, recipe in sorted(recipes.items())}
    text = json.dumps([name, edl.__version__, FORMAT, runs])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_name(name: str, part: str) -> str:
    """fig_x for the picture "", fig_x_part for others."""
    return f"{name}_{part}" if part else name


def write_index(root: Folder) -> None:
    """A page and a table of all finished figures of all presets."""
    from edl.figures.results import results_html, results_markdown

    records = [record for preset in SUBFOLDERS for record in read_records(root, preset)]
    root.write(INDEX, results_html(records, SUBFOLDERS).encode())
    root.write(TABLE, results_markdown(records).encode())


def read_records(root: Folder, preset: str) -> list[dict[str, Any]]:
    """The JSON files of a preset's finished figures, without those of another format."""
    folder = Folder(root.path / SUBFOLDERS[preset])
    records = [folder.read_json(f"{name}.json") for name in FIGURES if folder.has(f"{name}.json")]
    return [record for record in records if record.get("format") == FORMAT and record["preset"] == preset]

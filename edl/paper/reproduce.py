"""Make figures of the paper: run what is missing, measure, draw, judge, and keep an index page.

A folder of results has, for each figure, pictures (PNG and SVG) and ``NAME.json`` with numbers and verdicts, which is
written last and says that the rest is there; ``index.html``; and the runs, under ``runs/``, named by the hash of their
config. What is finished is not made again.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edl.config import ConfigError
from edl.runs import store
from edl.paper import FIGURES
from edl.paper.figure import Made
from edl.paper.library import Library, Unwatched, Watch
from edl.paper.recipes import Grid, Recipe
from edl.runs.run import provenance
from edl.config import check_name
from edl.runs.store import Folder

INDEX = "index.html"
RUNS = "runs"
DPI = 110
"""Sharp enough, and small enough to be kept in a repository."""


def reproduce(
    names: Sequence[str],
    out: str | Path,
    grid: Grid = Grid(),
    *,
    redraw: bool = False,
    jobs: int = 1,
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """Make the named figures (``all`` for every one) in the folder ``out``; what each has come to, as its JSON says.

    ``redraw`` makes them again from the runs that are there; ``jobs`` runs are made at a time.
    """
    watch = watch or Unwatched()
    chosen = expand(names)
    recipes = {name: FIGURES[name].recipes(grid) for name in chosen}
    folder = Folder(Path(out))
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"output folder {str(out)!r} cannot be made ({error.strerror}): a writable place is wanted. "
            "Choose another --out."
        ) from error
    pending = [name for name in chosen if redraw or not is_finished(folder, name, recipes[name])]
    with store.locked(folder):
        wanted = [each for name in pending for each in recipes[name].values()]
        with contextlib.closing(Library(folder.path / RUNS, wanted, watch, jobs)) as library:
            for number, name in enumerate(chosen, 1):
                head = f"[{number}/{len(chosen)}] {name}: {FIGURES[name].title}"
                if name not in pending:
                    watch.say(f"{head}: done before")
                    continue
                watch.say(head)
                publish(folder, name, recipes[name], library, grid)
                write_index(folder)
        write_index(folder)
    return [folder.read_json(f"{name}.json") for name in chosen]


def expand(names: Sequence[str]) -> list[str]:
    """The figures that are meant, each once; a name that is not known is refused."""
    for name in names:
        check_name(name, ["all", *FIGURES], "figure", "`edl reproduce --help` tells what each is.")
    return list(FIGURES) if "all" in names or not names else list(dict.fromkeys(names))


def publish(folder: Folder, name: str, recipes: dict[str, Recipe], library: Library, grid: Grid) -> None:
    """Run what a figure needs, make it, and write it down."""
    began = time.perf_counter()
    runs = {label: library.fetch(recipe) for label, recipe in recipes.items()}
    made = FIGURES[name].make(runs)
    for part, (figure, _) in made.pictures.items():
        from edl.figures import to_png, to_svg  # matplotlib takes half a second, and a refused name needs none

        folder.write(f"{file_name(name, part)}.png", to_png(figure, dpi=DPI))
        figure.set_dpi(DPI)  # of what is pixels in an SVG too
        folder.write(f"{file_name(name, part)}.svg", to_svg(figure))
    folder.write_json(f"{name}.json", record(name, recipes, made, grid, time.perf_counter() - began))


def record(name: str, recipes: dict[str, Recipe], made: Made, grid: Grid, seconds: float) -> dict[str, Any]:
    """What is kept of a figure."""
    return {
        "figure": name,
        "title": FIGURES[name].title,
        "key": key_of(name, recipes),
        "preset": grid.preset,
        "num_seeds": grid.num_seeds,
        "verdicts": [verdict.to_json() for verdict in made.verdicts],
        "pictures": {file_name(name, part): picture.caption for part, picture in made.pictures.items()},
        "runs": {label: f"{RUNS}/{recipe.folder}" for label, recipe in recipes.items()},
        "numbers": made.numbers,
        "seconds": round(seconds, 1),
        "provenance": provenance(),
    }


def is_finished(folder: Folder, name: str, recipes: dict[str, Recipe]) -> bool:
    """Whether a figure was made of the same runs already."""
    return folder.has(f"{name}.json") and folder.read_json(f"{name}.json").get("key") == key_of(name, recipes)


def key_of(name: str, recipes: dict[str, Recipe]) -> str:
    """A hash of the runs behind a figure."""
    text = json.dumps([name, {label: recipe.key for label, recipe in sorted(recipes.items())}])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def file_name(name: str, part: str) -> str:
    """fig_x for the picture named "", fig_x_part for others."""
    return f"{name}_{part}" if part else name


def write_index(folder: Folder) -> None:
    """A page of all figures that are there."""
    from edl.figures.results import results_html

    there = [folder.read_json(f"{name}.json") for name in FIGURES if folder.has(f"{name}.json")]
    folder.write(INDEX, results_html(there).encode())

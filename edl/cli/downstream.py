"""``edl downstream RUN [RUN ...]``: skills put to use on sparse tasks."""

import dataclasses
import itertools
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from edl.runtime import compile_cache
from edl.config import ConfigError
from edl.hierarchy.controller import ControlConfig
from edl.runs import store
from edl.runs.result import Run, load
from edl.runs.config import check_numbers

ABOUT = "Sparse goals far from the start: a controller over a run's frozen skills, against PPO without skills."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What there is to choose."""

    num_goals: Annotated[int, tyro.conf.arg(help="Tasks, each with a goal and a controller of its own.")] = 8
    radius: Annotated[float, tyro.conf.arg(help="Near enough: in a maze's units, or standard deviations.")] = 0.5
    seed: Annotated[int, tyro.conf.arg(help="Which goals.")] = 0
    control: ControlConfig = dataclasses.field(default_factory=ControlConfig)


def downstream(words: list[str]) -> int:
    """``edl downstream``."""
    paths = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = tyro.cli(Options, args=words[len(paths) :], prog="edl downstream RUN ...", description=ABOUT)
    if not paths:
        raise ConfigError("RUN is missing: `edl downstream RUN ...` is wanted. Put it first.")
    check_numbers(options, "")
    compile_cache.enable()
    from edl.runs import downstream as experiment

    runs = {path: load(path) for path in paths}
    first = next(iter(runs.values()))
    for path, each in runs.items():
        if each.config.env != first.config.env:
            raise ConfigError(f"{path!r} is a run in {each.config.env!r}: runs in {first.config.env!r} are compared.")
    tasks = experiment.tasks_of(first, options.num_goals, options.radius, options.seed)
    screen, results = Console(), {}
    for path, each in runs.items():
        flat = next(iter(results.values()), None)
        results[path] = experiment.downstream(each, options.control, tasks, compare=flat, say=_teller(screen, path))
        store.open_run(path).write_json(experiment.FILE, results[path])
    _draw(first, results)
    _show(screen, results)
    return 0


def _teller(screen: Console, path: str) -> Any:
    told: dict[str, int] = {}

    def say(name: str, share: float) -> None:
        if int(10 * share) > told.get(name, 0):
            told[name] = int(10 * share)
            screen.print(f"{path}  {name:<10} {10 * told[name]:>3}%", markup=False, highlight=False)

    return say


def _draw(first: Run, results: dict[str, Any]) -> None:
    from edl.figures.downstream import downstream_figure
    from edl.figures.style import to_png

    assert first.path is not None
    png = to_png(downstream_figure(_labelled(results), f"Sparse goals in {first.config.env}"))
    store.open_run(first.path).save_picture("downstream", png)


def _labelled(results: dict[str, Any]) -> dict[str, Any]:
    return {_label(Path(path).name, result["method"]): result for path, result in results.items()}


def _label(folder: str, method: str) -> str:
    return f"{method} skills" if folder == method else f"{folder}: {method} skills"


def _show(screen: Console, results: dict[str, Any]) -> None:
    first = next(iter(results.values()))
    steps, goals = first["env_steps"], len(first["goals"])
    table = Table(title=f"{first['env']}: {goals} sparse goals, {steps:,} steps each", title_justify="left", box=None)
    for column in ("what", "success", "95% interval", "skills in a success"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for label, result in _labelled(results).items():
        chained = f"{result['controller']['skills_in_a_success']:.1f}"
        table.add_row(f"controller over {label}", *_numbers(result["controller"]), chained)
        table.add_row("  zero-shot: the skill with the nearest goal", *_numbers(result["zero_shot"]), "1.0")
    table.add_row("PPO without skills", *_numbers(first["flat"]), "-")
    screen.print()
    screen.print(table)


def _numbers(found: dict[str, Any]) -> tuple[str, str]:
    low, high = found["ci95"]
    return f"{found['success']:.3f}", f"{low:.3f} to {high:.3f}"

"""``edl downstream RUN...``: a controller over a run's skills, on sparse tasks."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edl.cli.console import new_console, print_line
from edl.cli.options import EnvAgain
from edl.config import ConfigError, check, check_numbers
from edl.hierarchy.controller import ControlConfig
from edl.runs import downstream, store
from edl.runs.result import Run, load

ABOUT = "Sparse goals far from the start: a controller over a run's frozen skills, against PPO without skills."

Results = Mapping[str, dict[str, Any]]
"""The results of `edl.runs.downstream` by run folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl downstream``."""

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN")]
    """Folders of runs in the same env."""
    num_goals: int = 8
    """Number of tasks. Each has its own goal and its own controller."""
    radius: float = 0.5
    """Distance within which a goal is reached: in cells of a maze, or in standard deviations of the features."""
    seed: int = 0
    """Seed of the choice of goals."""
    env: EnvAgain = None
    control: ControlConfig = dataclasses.field(default_factory=ControlConfig)


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl downstream", description=ABOUT)
    check(len(options.runs) > 0, "edl downstream needs at least one run: pass the folders of runs.")
    check_numbers(options)
    runs = {path: load(path, env=options.env) for path in options.runs}
    first = next(iter(runs.values()))
    for path, run in runs.items():
        if run.config.env != first.config.env:
            raise ConfigError(
                f"all runs must be in the same env (got {path!r} in {run.config.env!r} and the first run in "
                f"{first.config.env!r})."
            )
    tasks = downstream.tasks_of(first, options.num_goals, options.radius, options.seed)
    console, results = new_console(), {}
    for path, run in runs.items():
        compare = next(iter(results.values()), None)
        report = _progress_lines(console, path)
        results[path] = downstream.downstream(run, options.control, tasks, compare=compare, on_progress=report)
        store.open_run(path).write_json(downstream.FILE, results[path])
    _draw(first, results)
    console.print()
    console.print(results_table(results))
    return 0


def _progress_lines(console: Console, path: str) -> Callable[[str, float], None]:
    """A callback that prints a line per tenth of a learner's training."""
    printed: dict[str, int] = {}

    def report(name: str, share: float) -> None:
        if int(10 * share) > printed.get(name, 0):
            printed[name] = int(10 * share)
            print_line(console, f"{path}  {name:<10} {10 * printed[name]:>3}%")

    return report


def _draw(first: Run, results: Results) -> None:
    """Write the learning curves to the folder of the first run."""
    from edl.figures.downstream import downstream_figure
    from edl.figures.style import to_png

    assert first.path is not None
    png = to_png(downstream_figure(_labelled(results), f"Sparse goals in {first.config.env}"))
    store.open_run(first.path).save_picture("downstream", png)


def results_table(results: Results) -> Table:
    """Success of the controllers, of their zero-shot baselines, and of PPO without skills."""
    first = next(iter(results.values()))
    title = f"{first['env']}: {len(first['goals'])} sparse goals, {first['env_steps']:,} steps each"
    table = Table(title=Text(title, style="bold"), title_justify="left", pad_edge=False, box=None)
    for column in ("learner", "success", "95% interval", "skills per success"):
        table.add_column(column, justify="left" if column == "learner" else "right")
    for label, result in _labelled(results).items():
        skills = f"{result['controller']['skills_in_a_success']:.1f}"
        table.add_row(f"controller over {label}", *_numbers(result["controller"]), skills)
        table.add_row("  zero-shot: the skill with the nearest goal", *_numbers(result["zero_shot"]), "1.0")
    table.add_row("PPO without skills", *_numbers(first["flat"]), "-")
    return table


def _labelled(results: Results) -> dict[str, dict[str, Any]]:
    return {_label(Path(path).name, result["method"]): result for path, result in results.items()}


def _label(folder: str, method: str) -> str:
    return f"{method} skills" if folder == method else f"{folder}: {method} skills"


def _numbers(found: Mapping[str, Any]) -> tuple[str, str]:
    low, high = found["ci95"]
    return f"{found['success']:.3f}", f"{low:.3f} to {high:.3f}"

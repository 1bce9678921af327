"""``edl downstream RUN...``: a controller over each run's skills, on sparse goals or on a task of METRA."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edl.cli.console import new_console, print_labelled, print_line
from edl.cli.options import EnvAgain
from edl.config import check, check_numbers
from edl.envs.success import success_of
from edl.hierarchy.controller import ControlConfig
from edl.hierarchy.tasks import TASKS, TaskConfig
from edl.runs import downstream, store, tasks
from edl.runs.compare import names_of
from edl.runs.controllers import CONTROLLERS, save_controllers
from edl.runs.downstream_table import COLUMNS, table_rows, to_markdown, to_task_markdown
from edl.runs.result import Run, load

DESCRIPTIONS = "; ".join(f"{name}, {task.description}" for name, task in TASKS.items())
ABOUT = (
    "Sparse goals far from the start: a controller over a run's frozen skills, against PPO without skills. "
    f"With --task, a task for robots in the open instead: {DESCRIPTIONS}."
)

Results = Mapping[str, dict[str, Any]]
"""The results of `edl.runs.downstream` by run folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl downstream``."""

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN")]
    """Folders of runs in the same env."""
    task: str = ""
    """A task for robots instead of sparse goals: ant_multi_goal, half_cheetah_goal or half_cheetah_hurdle."""
    num_goals: int = 8
    """Number of tasks. Each has its own goal and its own controller."""
    radius: float = 0.0
    """Distance within which a goal is reached: in cells of a maze, in units if the features are a place (robots in the
    open), or else in standard deviations of the features. 0: that of goal_success."""
    seed: int = 0
    """Seed of the choice of goals."""
    full_budget: bool = True
    """Train PPO without skills a second time, with the steps that trained the skills in addition."""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as Markdown to this file."""
    env: EnvAgain = None
    control: ControlConfig = dataclasses.field(default_factory=ControlConfig)
    task_control: TaskConfig = dataclasses.field(default_factory=TaskConfig)


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl downstream", description=ABOUT)
    check(len(options.runs) > 0, "needs at least one run: pass the folders of runs.")
    check_numbers(options)
    names_of(options.runs)  # rejects a run that is named twice
    with contextlib.ExitStack() as locks:
        for path in options.runs:
            locks.enter_context(store.locked(store.open_run(path)))
        return train(options)


def train(options: Options) -> int:
    """Train controllers over the skills of all runs, and write and print the results. The runs are locked."""
    runs = {path: load(path, env=options.env) for path in options.runs}
    if options.task:
        return run_task(options, runs)
    explored = next((run for run in runs.values() if run.states is not None), runs[options.runs[0]])
    radius = options.radius or success_of(explored.env).radius
    tasks = downstream.tasks_of(explored, options.num_goals, radius, options.seed)
    console, results = new_console(), {}
    for path, outcome in downstream.compare_runs(
        runs, options.control, tasks, full_budget=options.full_budget, on_progress=_progress_lines(console)
    ):
        results[path] = outcome.result
        store.open_run(path).write_json(downstream.FILE, outcome.result)
        save_controllers(runs[path], outcome.controllers)
    _draw(results)
    console.print()
    console.print(results_table(results))
    console.print()
    for path in results:
        print_labelled(console, "saved", str(Path(path) / CONTROLLERS))
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(to_markdown(_labelled(results)))
        print_labelled(console, "wrote", str(options.markdown))
    return 0


def run_task(options: Options, runs: Mapping[str, Run]) -> int:
    """A task of METRA for every run."""
    console, results = new_console(), {}
    for path, result in tasks.compare_on_task(runs, options.task, options.task_control, _progress_lines(console)):
        results[path] = result
        store.open_run(path).write_json(tasks.file_of(options.task), result)
    text = to_task_markdown(_labelled(results))
    console.print()
    print_line(console, text)
    for path in results:
        print_labelled(console, "saved", str(Path(path) / tasks.file_of(options.task)))
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
        print_labelled(console, "wrote", str(options.markdown))
    return 0


def _progress_lines(console: Console) -> Callable[[str, str, float], None]:
    """A callback that prints a line per tenth of a learner's training."""
    printed: dict[tuple[str, str], int] = {}

    def report(path: str, name: str, share: float) -> None:
        if int(10 * share) > printed.get((path, name), 0):
            printed[path, name] = int(10 * share)
            print_line(console, f"{path}  {name:<10} {10 * printed[path, name]:>3}%")

    return report


def _draw(results: Results) -> None:
    """Write the learning curves: those of all runs to the folder of the first run, and of each other run to its own."""
    from edl.figures.downstream import downstream_figure
    from edl.figures.style import to_png

    for index, (path, result) in enumerate(results.items()):
        shown = _labelled(results if index == 0 else {path: result})
        png = to_png(downstream_figure(shown, f"Sparse goals in {result['env']}"))
        store.open_run(path).save_picture("downstream", png)


def results_table(results: Results) -> Table:
    """Steps and success of the controllers, of their zero-shot baselines, and of PPO without skills."""
    from edl.figures.curves import format_steps

    first = next(iter(results.values()))
    title = f"{first['env']}: {len(first['goals'])} sparse goals, environment steps per goal"
    table = Table(title=Text(title, style="bold"), title_justify="left", pad_edge=False, box=None)
    for column in COLUMNS:
        text = column == "learner"
        table.add_column(column, justify="left" if text else "right", no_wrap=not text)
    for row in table_rows(_labelled(results)):
        table.add_row(*row.cells(format_steps))
    return table


def _labelled(results: Results) -> dict[str, dict[str, Any]]:
    names = names_of(list(results))
    return {_label(name, result["method"]): result for name, result in zip(names, results.values(), strict=True)}


def _label(name: str, method: str) -> str:
    return name if name == method else f"{name} ({method})"

"""Progress of a run: a bar per stage on a terminal or in a notebook, a line per tenth of a stage elsewhere."""

import collections
import contextlib
import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from edl.evaluate.metrics import METRICS
from edl.runs.progress import Progress, SilentProgress, StageProgress

TRAINING_METRICS = ("coverage", "perplexity", "usage", "loss", "return")
"""Shown while a stage runs if it reports no metric of the table."""
COMPILING = "compiling"
RATE_SECONDS, MIN_RATE_SECONDS = 20.0, 2.0
"""Rates are averaged over this time, as soon as a stage has run for the shorter one."""
EXPLAINED = {"scout": "a short exploration, because the states came without the paths that walking distance needs"}
"""Stages that a user did not ask for, and why they run."""


def headline(metrics: Mapping[str, float]) -> str:
    """The metric that is shown while a stage runs."""
    names = (*METRICS, *TRAINING_METRICS, *metrics)
    name = next((name for name in names if name in metrics), None)
    if name is None or name == "done":
        return ""
    value = METRICS[name].format(metrics[name]) if name in METRICS else f"{metrics[name]:.3g}"
    return f"{name} {value}"


def format_magnitude(number: float) -> str:
    """12345 -> 12.3k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def format_duration(seconds: float) -> str:
    """0:07, 3:20, 1:02:03."""
    whole = round(seconds)
    minutes = f"{whole // 60 % 60:02d}" if whole >= 3600 else f"{whole // 60}"
    return f"{whole // 3600}:{minutes}:{whole % 60:02d}" if whole >= 3600 else f"{minutes}:{whole % 60:02d}"


def format_rate(rate: float, env_steps: int) -> str:
    """Environment steps per second, or iterations per second for a stage without an env."""
    return f"{format_magnitude(rate * env_steps)} steps/s" if env_steps else f"{format_magnitude(rate)} it/s"


def print_line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)


class TimeColumn(ProgressColumn):
    """The time left while a stage runs, and the time it took afterwards."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text(f"took {format_duration(task.finished_time or 0.0)}", style="dim")
        left = task.time_remaining
        return Text("" if left is None else f"{format_duration(left)} left", style="cyan")


class ProgressBars:
    """A progress bar per stage. Its columns show text as it is: rich would read markup in names by default."""

    def __init__(self, console: Console):
        self.bars = RichProgress(
            SpinnerColumn(finished_text=Text("✓", style="green")),
            TextColumn("{task.description:<9}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TextColumn("{task.fields[rate]:>13}", markup=False),
            TextColumn("{task.fields[headline]:<22}", style="bold", markup=False),
            TimeColumn(),
            console=console,
            speed_estimate_period=20.0,
        )
        self.tasks: dict[str, TaskID] = {}
        self.last: dict[str, StageProgress] = {}
        self.meters: dict[str, RateMeter] = {}

    def __enter__(self) -> "ProgressBars":
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def stage_started(self, stage: str, iterations: int) -> None:
        """Add a bar, which moves back and forth until the program is compiled."""
        if stage in EXPLAINED:
            print_line(self.bars.console, f"  {stage:<9} {EXPLAINED[stage]}")
        self.meters[stage] = RateMeter()
        self.tasks[stage] = self.bars.add_task(stage, total=None, rate="", headline=COMPILING if iterations else "")

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        self.last[stage] = progress
        self.bars.update(
            self.tasks[stage],
            total=progress.iterations,
            completed=progress.iteration,
            rate=format_rate(self.meters[stage].rate(progress), progress.env_steps),
            headline=headline(progress.metrics),
        )

    def stage_finished(self, stage: str) -> None:
        """Fill the bar. A stage may end before its last iteration."""
        last = self.last.get(stage)
        done, shown = (1, "") if last is None else (last.iteration, headline(last.metrics))
        self.bars.update(self.tasks[stage], total=done, completed=done, headline=shown)


class RateMeter:
    """Iterations per second over the last `RATE_SECONDS` of a stage, which varies less than the rate of a chunk."""

    def __init__(self) -> None:
        self.seen: collections.deque[tuple[float, int]] = collections.deque()

    def rate(self, progress: StageProgress) -> float:
        """Record the progress, and return the rate. The first chunks have only their own."""
        now = time.perf_counter()
        self.seen.append((now, progress.iteration))
        while len(self.seen) > 2 and now - self.seen[1][0] > RATE_SECONDS:
            self.seen.popleft()
        since, first = self.seen[0]
        return (progress.iteration - first) / (now - since) if now - since > MIN_RATE_SECONDS else progress.rate


class ProgressLines:
    """A line per tenth of a stage, for logs."""

    def __init__(self, console: Console):
        self.console, self.tenth, self.began, self.meter = console, 0, 0.0, RateMeter()

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *error: object) -> None: ...

    def stage_started(self, stage: str, iterations: int) -> None:
        self.tenth, self.began, self.meter = 0, time.perf_counter(), RateMeter()
        if stage in EXPLAINED:
            print_line(self.console, f"{stage:<9} {EXPLAINED[stage]}")

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        rate, tenth = self.meter.rate(progress), 10 * progress.iteration // progress.iterations
        if tenth > self.tenth and progress.iterations > 1:
            left = format_duration((progress.iterations - progress.iteration) / rate)
            facts = [f"{stage:<9} {10 * tenth:>3}%", format_rate(rate, progress.env_steps)]
            facts += [headline(progress.metrics), f"{left} left" if tenth < 10 else ""]
            self.console.print("  ".join(fact for fact in facts if fact))
        self.tenth = max(tenth, self.tenth)

    def stage_finished(self, stage: str) -> None:
        self.console.print(f"{stage:<9} done in {format_duration(time.perf_counter() - self.began)}")


@contextlib.contextmanager
def show_progress(progress: bool | Progress | None) -> Iterator[Progress]:
    """The progress display of a Python call: None shows it on a terminal or in a notebook, a bool decides."""
    if isinstance(progress, Progress):
        yield progress
    elif progress or (progress is None and is_interactive()):
        with progress_display(Console(markup=False, emoji=False, highlight=False)) as display:
            yield display
    else:
        yield SilentProgress()


def is_interactive() -> bool:
    """Whether a person watches the output: a terminal, or a Jupyter notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_notebook = type(shell).__name__ == "ZMQInteractiveShell"
    return in_notebook or bool(getattr(sys.stdout, "isatty", lambda: False)())


def progress_display(console: Console) -> ProgressBars | ProgressLines:
    """Bars on a terminal and in a notebook with ipywidgets, which rich needs for them there; lines elsewhere."""
    has_widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    bars = has_widgets or (console.is_terminal and not console.is_jupyter)
    return ProgressBars(console) if bars else ProgressLines(console)

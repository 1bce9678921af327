"""How a run goes, while it goes: a bar per stage on a terminal, a line per tenth elsewhere."""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from edl.runs.session import Progressed

HEADLINES = ("goal_success", "data_coverage", "coverage", "perplexity", "usage", "loss", "return")
"""The metric shown while a stage runs: the first of these that it reports."""


def headline(metrics: Mapping[str, float]) -> str:
    """The one metric worth watching."""
    name = next((name for name in HEADLINES if name in metrics), next(iter(metrics), None))
    return "" if name is None or name == "done" else f"{name} {metrics[name]:.3g}"


def magnitude(number: float) -> str:
    """12345 -> 12.3k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """0:07, 3:20, 1:02:03."""
    whole = round(seconds)
    minutes = f"{whole // 60 % 60:02d}" if whole >= 3600 else f"{whole // 60}"
    return f"{whole // 3600}:{minutes}:{whole % 60:02d}" if whole >= 3600 else f"{minutes}:{whole % 60:02d}"


def speed(pace: float, env_steps: int) -> str:
    """Environment steps a second, or iterations where no step is taken."""
    return f"{magnitude(pace * env_steps)} steps/s" if env_steps else f"{magnitude(pace)} it/s"


class Remaining(ProgressColumn):
    """Time left while a stage runs, and the time it took afterwards."""

    def render(self, task: Task) -> Text:
        """The text of the column."""
        if task.finished:
            return Text(f"took {duration(task.finished_time or 0.0)}", style="dim")
        return Text("" if task.time_remaining is None else f"{duration(task.time_remaining)} left", style="cyan")


class Bars:
    """A rich progress bar per stage."""

    def __init__(self, console: Console):
        self.progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[rate]:>13}"),
            TextColumn("[bold]{task.fields[shown]:<22}"),
            Remaining(),
            console=console,
            speed_estimate_period=20.0,
        )
        self.tasks: dict = {}

    def __enter__(self) -> "Bars":
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def begin(self, stage: str, iterations: int) -> None:
        """Add a bar, which moves back and forth until the program is compiled."""
        shown = "compiling" if iterations else ""
        self.tasks[stage] = self.progress.add_task(stage, total=None, rate="", shown=shown)

    def tick(self, stage: str, tick: Progressed) -> None:
        """Move the bar."""
        rate, shown = speed(tick.pace, tick.env_steps), headline(tick.metrics)
        self.progress.update(self.tasks[stage], total=tick.iterations, completed=tick.iteration, rate=rate, shown=shown)

    def end(self, stage: str) -> None:
        """Fill the bar."""
        task = next(each for each in self.progress.tasks if each.id == self.tasks[stage])
        shown = "" if task.fields["shown"] == "compiling" else task.fields["shown"]
        self.progress.update(task.id, total=task.completed or 1, completed=task.completed or 1, shown=shown)


class Lines:
    """A line per tenth of a stage, for logs."""

    def __init__(self, console: Console):
        self.console, self.tenth, self.began = console, 0, 0.0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self, stage: str, iterations: int) -> None:
        """Forget the last stage."""
        self.tenth, self.began = 0, time.perf_counter()

    def tick(self, stage: str, tick: Progressed) -> None:
        """Print a line if another tenth is done."""
        tenth = 10 * tick.iteration // tick.iterations
        if tenth > self.tenth and tick.iterations > 1:
            left = duration((tick.iterations - tick.iteration) / tick.pace)
            facts = [f"{stage:<9} {10 * tenth:>3}%", speed(tick.pace, tick.env_steps), headline(tick.metrics)]
            facts += [f"{left} left"] if tenth < 10 else []
            self.console.print("  ".join(fact for fact in facts if fact), markup=False, highlight=False)
        self.tenth = max(tenth, self.tenth)

    def end(self, stage: str) -> None:
        """Print how long it took."""
        spent = duration(time.perf_counter() - self.began)
        self.console.print(f"{stage:<9} done in {spent}", markup=False, highlight=False)


def reporter(console: Console) -> Bars | Lines:
    """Bars for a person, lines for a file."""
    return Bars(console) if console.is_terminal else Lines(console)

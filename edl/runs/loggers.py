"""Logging of a run to other tools: TensorBoard, Weights & Biases, or a CSV file. log.jsonl is always written.

A logger is a `Progress`: it passes everything on to the display, and logs the metrics of every chunk by the number of
environment steps (or of iterations, for a stage without an env). Values are means over the seeds that run together.
That is all of them on an accelerator. On a CPU with fewer cores than seeds, they run in parts, one after the other, and
each part has curves of its own: ``learn/loss/seeds_2-3``.
"""

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from edl.config import ConfigError
from edl.runs.config import RunConfig, to_json
from edl.runs.progress import Progress, StageProgress, Watcher

LogTarget = Literal["none", "tensorboard", "wandb", "csv"]
CSV = "log.csv"
Write = Callable[[int, Mapping[str, float]], None]
"""(step, metrics) -> None."""


class LoggingProgress:
    """Passes progress on to a display, and its metrics to a writer, which is opened when the first stage starts."""

    def __init__(self, display: Progress, open_writer: Callable[[], Write]):
        self.display, self.open_writer = display, open_writer
        self.write: Write | None = None

    def stage_started(self, stage: str, iterations: int) -> None:
        self.write = self.write or self.open_writer()
        self.display.stage_started(stage, iterations)

    def stage_advanced(self, stage: str, progress: StageProgress) -> None:
        self.display.stage_advanced(stage, progress)
        assert self.write is not None  # the stage has started
        part = f"/seeds_{progress.seeds}" if progress.seeds else ""
        named = {f"{stage}/{name}{part}": value for name, value in progress.metrics.items()}
        self.write((progress.iteration - progress.begin) * (progress.env_steps or 1), named)

    def stage_finished(self, stage: str) -> None:
        self.display.stage_finished(stage)


class LoggingWatcher(LoggingProgress):
    """The same around a display that is a `Watcher`."""

    def stage_state(self, stage: str, state: Any, artifact: Callable[[], Any]) -> None:
        assert isinstance(self.display, Watcher)
        self.display.stage_state(stage, state, artifact)


@contextlib.contextmanager
def log_to(target: LogTarget, out: str | Path | None, config: RunConfig, display: Progress) -> Iterator[Progress]:
    """The display, with a logger around it. Files are written next to the folder ``out``, not into it."""
    if target == "none":
        yield display
        return
    if out is None:
        raise ConfigError(f"log={target!r} needs the folder of a run: pass --out DIR.")
    if target in PACKAGES:
        _import(target)  # a missing package is reported before anything is written
    with contextlib.ExitStack() as stack:
        logging = LoggingWatcher if isinstance(display, Watcher) else LoggingProgress
        yield logging(display, lambda: stack.enter_context(WRITERS[target](Path(out), config)))


@contextlib.contextmanager
def _tensorboard(out: Path, config: RunConfig) -> Iterator[Write]:
    writer = _import("tensorboard").SummaryWriter(str(out.with_name(f"{out.name}-tensorboard")))

    def write(step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    try:
        yield write
    finally:
        writer.close()


@contextlib.contextmanager
def _wandb(out: Path, config: RunConfig) -> Iterator[Write]:
    # Stages count their own steps, so wandb's own counter, which must not go back, is left alone.
    session = _import("wandb").init(project="edl", name=out.name, config=to_json(config))

    def write(step: int, metrics: Mapping[str, float]) -> None:
        session.log({**metrics, "step": step})

    try:
        yield write
    finally:
        session.finish()


@contextlib.contextmanager
def _csv(out: Path, config: RunConfig) -> Iterator[Write]:
    """One row per metric and chunk, so that stages with different metrics fit into one file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.with_name(f"{out.name}-{CSV}"), "a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            writer.writerow(["step", "metric", "value"])

        def write(step: int, metrics: Mapping[str, float]) -> None:
            writer.writerows([step, name, value] for name, value in metrics.items())
            file.flush()

        yield write


def _import(target: str) -> Any:
    import importlib

    module = PACKAGES[target]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"log={target!r} needs {module}, which is not installed. In a checkout, pip install '.[log]'. "
            "Or use --log csv."
        ) from error


PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""The packages that loggers need."""
WRITERS: dict[str, Callable[[Path, RunConfig], contextlib.AbstractContextManager[Write]]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "csv": _csv,
}

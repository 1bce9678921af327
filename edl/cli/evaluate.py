"""``edl evaluate RUN``: compute the metrics of a run again."""

import dataclasses

import tyro

from edl.cli.console import new_console
from edl.cli.options import EnvAgain, RunFolder
from edl.cli.summary import print_summary
from edl.runs import store
from edl.runs.evaluation import Evaluation, evaluate_run, metrics_of
from edl.runs.result import Run, load
from edl.runs.session import env_steps_of, read_progress, seconds_of

ABOUT = "Compute the metrics of a run again, and write metrics.json."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl evaluate`` and ``edl figure``."""

    run: RunFolder
    env: EnvAgain = None


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl evaluate", description=ABOUT)
    run, _ = load_and_evaluate(options)
    store.open_run(options.run).write_json(store.METRICS, run.metrics)
    print_summary(new_console(), run)
    return 0


def load_and_evaluate(options: Options) -> tuple[Run, Evaluation]:
    """A run with its metrics computed again. Its environment steps and seconds are kept."""
    run = load(options.run, env=options.env)
    before, finished = run.metrics or {}, read_progress(store.open_run(options.run))
    steps = {**env_steps_of(finished), **before.get("steps", {})}
    seconds = {**seconds_of(finished), **before.get("seconds", {})}
    found = evaluate_run(run)
    metrics = metrics_of(run, found, steps, seconds)
    return dataclasses.replace(run, metrics=store.plain(metrics)), found

"""``edl evaluate RUN``: compute the metrics of a run again."""

import dataclasses

import tyro

from edl.cli.console import new_console, print_labelled
from edl.cli.options import EnvAgain, RunFolder
from edl.cli.summary import print_summary
from edl.evaluate.metrics import definitions_note
from edl.runs import store
from edl.runs.evaluation import reevaluate

ABOUT = "Compute the metrics of a run again, and write metrics.json."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl evaluate`` and ``edl figure``."""

    run: RunFolder
    env: EnvAgain = None


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl evaluate", description=ABOUT)
    folder = store.open_run(options.run)
    before = folder.read_json(store.METRICS) if folder.has(store.METRICS) else {}
    run, _ = reevaluate(options.run, env=options.env)
    folder.write_json(store.METRICS, run.metrics)
    console = new_console()
    print_summary(console, run)
    note = definitions_note(before) if before.get("per_seed") else None
    if note is not None:
        print_labelled(console, "note", f"metrics.json held metrics by other definitions ({note}). They are replaced.")
    return 0

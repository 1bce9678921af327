"""``edl evaluate RUN``: compute the metrics of a run again."""

import dataclasses

import tyro

from edl.cli.console import new_console, print_labelled
from edl.cli.options import EnvAgain, RunFolder
from edl.cli.summary import print_summary
from edl.evaluate.metrics import definitions_note
from edl.runs import store
from edl.runs.cross_check import check_is_robot, cross_check, describe_cross_check
from edl.runs.evaluation import reevaluate
from edl.runs.result import load_run, read_metrics

ABOUT = "Compute the metrics of a run again, and write metrics.json."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl evaluate`` and ``edl figure``."""

    run: RunFolder
    env: EnvAgain = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Options):
    """Options of ``edl evaluate``."""

    cross_check: bool = False
    """Also play the skills of a robot in MuJoCo on the CPU, with the model's own solver, and compare."""


def main(words: list[str]) -> int:
    options = tyro.cli(EvaluateOptions, args=words, prog="edl evaluate", description=ABOUT)
    folder = store.open_run(options.run)
    with store.locked(folder):
        if options.cross_check:
            check_is_robot(load_run(options.run, env=options.env, with_metrics=False))  # before anything is played
        before = read_metrics(folder, damaged_is_none=True) or {}
        run, _ = reevaluate(options.run, env=options.env)
        checked = {"cross_check": cross_check(run)} if options.cross_check else {}
        folder.write_json(store.METRICS, {**(run.metrics or {}), **checked})
    console = new_console()
    print_summary(console, run)
    for name, text in describe_cross_check(checked.get("cross_check", {})).items():
        print_labelled(console, name, text)
    note = definitions_note(before) if before.get("per_seed") else None
    if note is not None:
        print_labelled(console, "note", f"metrics.json held metrics by other definitions ({note}). They are replaced.")
    return 0

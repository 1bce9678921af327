"""``edl figure RUN``: draw the figures of a run again, and write its report."""

import tyro

from edl.cli.console import new_console
from edl.cli.evaluate import Options
from edl.cli.summary import print_summary
from edl.runs import store
from edl.runs.evaluation import draw_figures, reevaluate, write_report

ABOUT = "Draw the figures of a run again, and write its report and metrics.json."


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl figure", description=ABOUT)
    run, found = reevaluate(options.run, env=options.env)
    write_report(store.open_run(options.run), run.metrics or {}, draw_figures(run, found))
    print_summary(new_console(), run)
    return 0

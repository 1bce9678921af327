"""``edl figure RUN``: draw the figures of a run again, and write its report."""

import dataclasses
from typing import Annotated, Literal

import tyro

from edl.cli.console import new_console, print_labelled
from edl.cli.evaluate import Options
from edl.cli.summary import print_summary
from edl.config import check, check_name
from edl.runs import store
from edl.runs.evaluation import animate_run, draw_figures, draw_run, reevaluate, write_report
from edl.runs.result import load

ABOUT = (
    "Draw the figures of a run again, and write its report and metrics.json. With --only, --format or --dims, draw "
    "figures to RUN/figures and write nothing else."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureOptions(Options):
    """Options of ``edl figure``."""

    only: tuple[str, ...] = ()
    """Names of figures, e.g. skills, states, assignments, curves, pictures. All by default."""
    format: Literal["png", "svg", "pdf", "gif"] = "png"
    """Format of the figures. gif is an animation of the skills."""
    dims: Annotated[str | None, tyro.conf.arg(metavar="DIMS")] = None
    """Features on the two axes, e.g. '0,2'. angle(0,1) is the angle of a cosine and a sine: 'angle(0,1),2'."""


def main(words: list[str]) -> int:
    options = tyro.cli(FigureOptions, args=words, prog="edl figure", description=ABOUT)
    if options.only or options.format != "png" or options.dims is not None:
        return draw_only(options)
    folder = store.open_run(options.run)
    with store.locked(folder):
        run, found = reevaluate(options.run, env=options.env)
        write_report(folder, run.metrics or {}, draw_figures(run, found))
    print_summary(new_console(), run)
    return 0


def draw_only(options: FigureOptions) -> int:
    """Draw some of the figures of the run's first seed."""
    from edl.figures import FIGURES, OTHER_CAPTIONS
    from edl.figures.style import to_pdf, to_png, to_svg

    if options.format == "gif":
        return animate(options)
    for name in options.only:
        check_name(name, {**FIGURES, **OTHER_CAPTIONS}, "figure")  # before anything is played
    run = load(options.run, env=options.env)
    drawn = draw_run(run, options.dims)
    for name in options.only:
        check_name(name, drawn, "figure")
    encode = {"png": to_png, "svg": to_svg, "pdf": to_pdf}[options.format]
    folder, console = store.open_run(options.run), new_console()
    with store.locked(folder):
        for name in options.only or drawn:
            print_labelled(console, "wrote", str(folder.write(f"figures/{name}.{options.format}", encode(drawn[name]))))
    return 0


def animate(options: FigureOptions) -> int:
    """Write figures/skills.gif."""
    check(set(options.only) <= {"skills"}, f"only the skills can be a gif (got --only {' '.join(options.only)}).")
    check(options.dims is None, "a gif shows the first two features. Leave out --dims.")
    folder = store.open_run(options.run)
    with store.locked(folder):
        path = folder.write("figures/skills.gif", animate_run(load(options.run, env=options.env)))
    print_labelled(new_console(), "wrote", str(path))
    return 0

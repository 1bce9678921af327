"""Writes the animation of the README, and the pictures and the interactive run of docs/idea.md, from one run.

    edl run --env bottleneck --out runs/bottleneck
    python docs/generate_media.py runs/bottleneck

`edl figure RUN --format gif` makes the same animation of any run.
"""

import sys
from pathlib import Path

from edl.figures.panel import to_json
from edl.figures.style import to_png
from edl.runs.evaluation import animate_run, draw_run, panel_of
from edl.runs.result import load

IMAGES = Path(__file__).with_name("images")


def main(path: str) -> None:
    run = load(path)
    (IMAGES / "bottleneck.gif").write_bytes(animate_run(run))
    drawn = draw_run(run)
    for name in ("states", "assignments"):
        (IMAGES / f"bottleneck_{name}.png").write_bytes(to_png(drawn[name], dpi=100))
    (IMAGES / "bottleneck_panel.json").write_text(to_json(panel_of(run)) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

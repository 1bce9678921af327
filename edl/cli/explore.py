"""``edl explore``: stage 1 alone."""

from edl.cli.execution import start_run

ABOUT = "Stage 1 alone: samples of p(s), and how much of the env they cover."


def main(words: list[str]) -> int:
    return start_run(words, "explore", ABOUT, nested=("explorer",), until="explore")

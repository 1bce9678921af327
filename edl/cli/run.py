"""``edl run``: all three stages."""

from edl.cli.execution import start_run

ABOUT = "Explore, discover and learn: skills that cover an env, without a reward."


def main(words: list[str]) -> int:
    return start_run(words, "run", ABOUT, nested=("explorer", "scout", "discoverer", "learner"))

"""``edl discover RUN``: stage 2 alone, on the states of a run."""

from edl.cli.execution import extend_run

ABOUT = "Stage 2 alone, on the states of a run: skills z, q(z|s) and q(s|z)."


def main(words: list[str]) -> int:
    return extend_run(words, "discover", ABOUT, flags=("discover", "num_skills", "out"), nested=("discoverer",))

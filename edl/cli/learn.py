"""``edl learn RUN``: stage 3 alone, on the skills of a run."""

from edl.cli.execution import extend_run

ABOUT = "Stage 3 alone, on the skills of a run: a policy pi(a|s,z)."


def main(words: list[str]) -> int:
    return extend_run(words, "learn", ABOUT, flags=("out",), nested=("scout", "learner"))

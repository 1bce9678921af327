"""I(S;Z) of runs, split by time: over all states of the rollouts (the metric), the two halves, and the last states.

python benchmarks/information.py RUN [RUN ...]
"""

import argparse
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Float

from edl import runtime
from edl.evaluate.coverage import BinGrid, visit_counts
from edl.evaluate.information import mutual_information
from edl.runs.evaluation import evaluator_of, play_seeds
from edl.runs.pipeline import stage_keys
from edl.runs.result import load

COLUMNS = ("all states", "first half", "second half", "last states", "path length")


def information(cells: BinGrid, states: Float[np.ndarray, "k n t s"]) -> float:
    """The plug-in estimate between cell and skill over these states."""
    counts = [visit_counts(cells, each, True) for each in states]
    return mutual_information(np.asarray(counts))


def rows(path: str) -> Iterator[tuple[float, ...]]:
    """The numbers of each seed, in the order of `COLUMNS`. Paths are measured in units of the features."""
    run = load(path)
    if run.policy is None or run.layout is None:
        raise SystemExit(f"{path} must be a run in a maze with a policy. Train one with `edl run`.")
    keys = stage_keys(run.config, "evaluate")
    episodes = jax.jit(play_seeds)(keys, run.env, run.policy, None)
    cells = evaluator_of(run).cells
    for states in np.asarray(episodes.features):
        middle = states.shape[2] // 2
        parts = (states, states[:, :, :middle], states[:, :, middle:], states[:, :, -1:])
        length = np.linalg.norm(np.diff(states, axis=2), axis=-1).sum(axis=-1).mean()
        yield (*(information(cells, part) for part in parts), float(length))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs in a maze")
    paths = parser.parse_args().runs
    runtime.enable()
    print(f"{'mean over seeds':<32} seeds  " + "  ".join(f"{name:>11}" for name in COLUMNS))
    for path in paths:
        found = np.array(list(rows(path)))
        print(f"{path:<32} {len(found):>5}  " + "  ".join(f"{value:>11.3f}" for value in found.mean(axis=0)))


if __name__ == "__main__":
    main()

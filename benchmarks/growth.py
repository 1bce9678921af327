"""Training speed at the paper's recipe with more rollouts, more skills or wider networks, changed one at a time.

python benchmarks/growth.py [--out growth.json]
"""

import argparse
import json

import jax

from edl import runtime
from edl.bench import ours
from edl.bench.timing import Row, race, warm_up

CHANGES = ({}, {"rollouts": 200}, {"rollouts": 800}, {"skills": 100}, {"width": 256}, {"width": 512})


def measure(iterations: int, rounds: int) -> list[Row]:
    """Measure one run with each change. The runs take turns, so that other load affects all of them."""
    return race([warm_up(ours.training(1, iterations, **change)) for change in CHANGES], rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="JSON file for the numbers")
    out = parser.parse_args().out
    runtime.enable()
    cpu = jax.default_backend() == "cpu"
    rows = measure(*((2, 3) if cpu else (30, 5)))
    for row in rows:
        print(f"{row.name:<32} {row.rate:>14,.0f} steps/s  {(row.flops or 0) / 1e9:>10,.0f} GFLOP/s")
    if out:
        with open(out, "w") as file:
            json.dump({"device": jax.devices()[0].device_kind, "rows": [row._asdict() for row in rows]}, file, indent=2)


if __name__ == "__main__":
    main()

"""How often the skills of ``edl run`` reach their goals in Gymnasium envs, with default settings.

    python benchmarks/gymnasium_defaults.py                          all envs, seeds 0 to 4
    python benchmarks/gymnasium_defaults.py Pendulum-v1 drone --seeds 0 1

Each row is one env. Each seed is a run of its own, as a user would start it:

    edl run --env ENV --features ... --seed SEED

The table has the mean of ``goal_success`` with a 95 % bootstrap interval over seeds, each seed's value, the success of
random actions, the verdict's interval of the difference for single seeds, and the seconds of the slowest seed: wall
clock, and CPU seconds divided by the number of cores. On a machine with other work, the second number is the one to
compare. ``--extra`` passes more flags to ``edl run``.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edl.evaluate.statistics import bootstrap

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.doc_pages import DOCS, blocks  # noqa: E402

PROBES = "tests.probes.control_envs"
ENVS: dict[str, tuple[list[str], float]] = {
    "MountainCarContinuous-v0": (["--env", "MountainCarContinuous-v0", "--features", "0,1"], 0.9),
    "Pendulum-v1": (["--env", "Pendulum-v1"], 0.8),
    "CartPole-v1": (["--env", "CartPole-v1", "--features", "0,2"], 0.8),
    "Acrobot-v1": (["--env", "Acrobot-v1"], 0.0),
    "drone": (["--env", "drone:Drone", "--features", "0,1", "--horizon", "50"], 0.95),
    "unicycle": (["--env", f"{PROBES}:Unicycle", "--features", "0,1", "--horizon", "50"], 0.95),
    "arm": (["--env", f"{PROBES}:Arm", "--features", "0,1", "--horizon", "100"], 0.95),
}
"""The flags of each env, and the success that we aim for (0: better than random)."""


class Outcome(NamedTuple):
    """One seed: its metrics, wall-clock seconds, and CPU seconds per core."""

    metrics: dict
    wall: float
    cpu: float

    @property
    def success(self) -> float:
        return self.metrics["per_seed"][0]["goal_success"]

    @property
    def claim(self) -> dict:
        return self.metrics["proof"]["claims"]["goals"]


def run_seed(flags: list[str], seed: int, folder: Path, extra: list[str]) -> Outcome:
    """One run in a process of its own. The folder holds the drone of the documentation."""
    (drone,) = [block.text for block in blocks(DOCS / "your_environment.md") if block.file == "drone.py"]
    (folder / "drone.py").write_text(drone, "utf-8")
    out = folder / f"seed{seed}"
    command = [sys.executable, "-m", "edl.cli", "run", *flags, "--seed", str(seed), "--out", str(out), *extra]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(json.loads((out / "metrics.json").read_text("utf-8")), wall, cpu / len(os.sched_getaffinity(0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", default=list(ENVS), help=", ".join(ENVS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[])
    options = parser.parse_args()
    print("| env | goal_success | 95 % interval | seeds | random | lowest difference | wall s | CPU s per core |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.envs:
        flags, target = ENVS[name]
        with tempfile.TemporaryDirectory() as folder:
            found = [run_seed(flags, seed, Path(folder), options.extra) for seed in options.seeds]
        scores = [each.success for each in found]
        low, high = bootstrap([scores])
        random = float(np.mean([each.claim["random"] for each in found]))
        worst = min(each.claim["ci95"][0] for each in found)
        each_seed = " ".join(f"{score:.3f}" for score in scores)
        aim = f" (aim {target})" if target else ""
        wall, cpu = max(each.wall for each in found), max(each.cpu for each in found)
        print(
            f"| {name}{aim} | {np.mean(scores):.3f} | {low:.3f} to {high:.3f} | {each_seed} | {random:.3f} "
            f"| {worst:.3f} | {wall:.0f} | {cpu:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""How often the skills of ``edl run`` reach their goals in Gymnasium envs, with default settings.

    python benchmarks/gymnasium_defaults.py                          all envs, seeds 0 to 4
    python benchmarks/gymnasium_defaults.py Pendulum-v1 drone --seeds 0 1
    python benchmarks/gymnasium_defaults.py --jobs 8 --out rows.jsonl    eight runs side by side

Each row of the table is one env. Each seed is a run of its own, as a user would start it:

    edl run --env ENV --features ... --seed SEED

Every run has two cores of its own (``--cores``), to which its process is pinned, so that its seconds are those of a
machine with two cores, however many runs go side by side. ``--cold`` gives each run an empty compile cache, as on its
first day on a machine.

``--out`` is a file to which each finished run is added as one line of JSON. Runs that are already in the file are not
repeated, so a call that was stopped continues where it was, and the table is about all runs in the file.

The table has the mean of ``goal_success`` with a 95 % bootstrap interval over seeds, each seed's value, the success of
random actions, the mean difference from random actions with its interval over seeds, and the seconds of the slowest
seed: wall clock, and CPU seconds divided by the number of cores. On a machine with other work, the second number is
the one to compare. ``--extra`` passes more flags to ``edl run``.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from edl.evaluate.statistics import bootstrap  # noqa: E402
from tests.doc_pages import DOCS, blocks  # noqa: E402

PROBES = "tests.probes.control_envs"
ENVS: dict[str, tuple[list[str], float]] = {
    "MountainCarContinuous-v0": (["--env", "MountainCarContinuous-v0", "--features", "0,1"], 0.9),
    "Pendulum-v1": (["--env", "Pendulum-v1"], 0.8),
    "CartPole-v1": (["--env", "CartPole-v1", "--features", "0,2"], 0.8),
    "Acrobot-v1": (["--env", "Acrobot-v1", "--features", "0,1,2,3", "--horizon", "50"], 0.0),
    "drone": (["--env", "drone:Drone", "--features", "0,1", "--horizon", "50"], 0.95),
    "unicycle": (["--env", f"{PROBES}:Unicycle", "--features", "0,1", "--horizon", "50"], 0.95),
    "arm": (["--env", f"{PROBES}:Arm", "--features", "0,1", "--horizon", "100"], 0.95),
}
"""The flags of each env, and the success that we aim for (0: better than random)."""


class Outcome(NamedTuple):
    """One seed: its metrics, wall-clock seconds, and CPU seconds per core."""

    metrics: dict[str, Any]
    wall: float
    cpu: float

    @property
    def success(self) -> float:
        return self.metrics["per_seed"][0]["goal_success"]

    @property
    def claim(self) -> dict[str, Any]:
        return self.metrics["proof"]["claims"]["goals"]

    def row(self, env: str, seed: int, extra: list[str]) -> dict[str, Any]:
        """What is written to a file."""
        return {
            "env": env,
            "seed": seed,
            "extra": extra,
            "goal_success": self.success,
            "random": self.claim["random"],
            "ci95": self.claim["ci95"],
            "verdict": self.metrics["proof"]["verdict"],
            "wall_s": round(self.wall, 1),
            "cpu_s_per_core": round(self.cpu, 1),
        }


class RunFailed(Exception):
    """A run ended with an error; the message has the end of its output."""


def run_seed(flags: list[str], seed: int, folder: Path, extra: list[str], *, cold: bool = False) -> Outcome:
    """One run in a process of its own, on the cores of the calling thread. The folder gets the drone of the docs."""
    (drone,) = [block.text for block in blocks(DOCS / "your_environment.md") if block.file == "drone.py"]
    (folder / "drone.py").write_text(drone, "utf-8")
    out, log = folder / f"seed{seed}", folder / f"seed{seed}.log"
    command = [sys.executable, "-m", "edl.cli", "run", *flags, "--seed", str(seed), "--out", str(out), *extra]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    variables = os.environ | {"PYTHONPATH": paths} | ({"EDL_CACHE": str(folder / f"cache{seed}")} if cold else {})
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)  # of this process and its own children, whatever runs beside it
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunFailed(f"{' '.join(command)} failed:\n{log.read_text('utf-8', 'replace')[-4000:]}")
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    return Outcome(metrics, wall, (used.ru_utime + used.ru_stime) / len(os.sched_getaffinity(0)))


def core_groups(jobs: int, size: int) -> list[set[int]]:
    """``jobs`` disjoint groups of ``size`` of the cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    if jobs == 1 and len(cores) <= size:
        return [set(cores)]
    if jobs * size > len(cores):
        raise SystemExit(f"--jobs {jobs} with {size} cores each needs {jobs * size} cores (got {len(cores)}).")
    return [set(cores[i * size : (i + 1) * size]) for i in range(jobs)]


def read_rows(file: Path | None) -> list[dict[str, Any]]:
    """The runs that were written to the file."""
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def missing(names: Iterable[str], seeds: list[int], extra: list[str], rows: list[dict]) -> list[tuple[str, int]]:
    """The runs that are not in ``rows``: pairs of env and seed."""
    there = {(row["env"], row["seed"], tuple(row["extra"])) for row in rows}
    return [(name, seed) for seed in seeds for name in names if (name, seed, tuple(extra)) not in there]


def run_all(options: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the runs that are missing, side by side, and return all rows. Each is written when it ends."""
    free: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for group in core_groups(options.jobs, options.cores):
        free.put(group)
    writing = threading.Lock()

    def run_one(name: str, seed: int) -> dict[str, Any]:
        cores = free.get()
        os.sched_setaffinity(0, cores)  # of this thread; the process that it starts inherits them
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = run_seed(ENVS[name][0], seed, Path(folder), options.extra, cold=options.cold)
        finally:
            free.put(cores)
        row = found.row(name, seed, options.extra)
        if options.out is not None:
            with writing, options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return row

    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run_one, *run) for run in missing(options.envs, options.seeds, options.extra, rows)]
        for finished in as_completed(runs):
            try:
                row = finished.result()
            except RunFailed as error:
                failed.append(str(error))
                print(error, file=sys.stderr, flush=True)
                continue
            rows = [*rows, row]
            print(json.dumps(row), file=sys.stderr, flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(runs)} runs failed.")
    return rows


def table(names: Iterable[str], rows: list[dict[str, Any]]) -> str:
    """The rows of each env in one line of Markdown."""
    lines = [
        "| env | goal_success | 95 % interval | seeds | random | difference | its interval | wall s | CPU s per core |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in names:
        own = sorted((row for row in rows if row["env"] == name), key=lambda row: row["seed"])
        if not own:
            continue
        scores, random = ([row[key] for row in own] for key in ("goal_success", "random"))
        differences = np.subtract(scores, random)
        (low, high), (worst, best) = bootstrap([scores]), bootstrap([differences])
        each_seed = " ".join(f"{score:.3f}" for score in scores)
        aim = f" (aim {ENVS[name][1]})" if ENVS[name][1] else ""
        wall, cpu = (max(row[key] for row in own) for key in ("wall_s", "cpu_s_per_core"))
        lines.append(
            f"| {name}{aim} | {np.mean(scores):.3f} | {low:.3f} to {high:.3f} | {each_seed} | {np.mean(random):.3f} "
            f"| {np.mean(differences):.3f} | {worst:.3f} to {best:.3f} | {wall:.0f} | {cpu:.0f} |"
        )
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", default=list(ENVS), help=", ".join(ENVS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--jobs", type=int, default=1, help="number of runs side by side")
    parser.add_argument("--cores", type=int, default=2, help="number of cores per run")
    parser.add_argument("--out", type=Path, help="file to which finished runs are added, one line of JSON each")
    parser.add_argument("--cold", action="store_true", help="give each run an empty compile cache")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="more flags for edl run; comes last")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    rows = [row for row in read_rows(options.out) if row["extra"] == options.extra]
    print(table(options.envs, run_all(options, rows)))


if __name__ == "__main__":
    main()

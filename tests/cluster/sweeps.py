"""Sweeps for the fault tests, and what must not depend on faults."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from safetensors.numpy import load_file

from edl.config import ConfigError
from edl.runs import store, tensors
from edl.runs.store import Folder

STARTED = []
"""The processes that tests have started."""


def content(points, seeds, iterations):
    """A sweep file: ``points`` learning rates, so that all points share one chunk that explores."""
    ppo = {"iterations": iterations, "rollouts": 8, "epochs": 2, "minibatches": 2, "hidden": [16]}
    run = {
        "env": "square",
        "explore": "random_walk",
        "discover": "kmeans",
        "num_skills": 3,
        "num_seeds": seeds,
        "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
        "learner": {"distance": "euclidean", "ppo": ppo},
    }
    rates = [round(1e-4 * 1.02**number, 9) for number in range(points)]
    return {"run": run, "grid": {"learner.ppo.learning_rate": rates}}


def tiny(sweep):
    """The same sweep with less to play and to evaluate."""
    smaller = {"num_skills": 2, "horizon": 10, "explorer": {"iterations": 2, "rollouts": 4, "num_samples": 64}}
    ppo = sweep["run"]["learner"]["ppo"] | {"hidden": [4]}
    return sweep | {"run": sweep["run"] | smaller | {"learner": sweep["run"]["learner"] | {"ppo": ppo}}}


def lanes_of(out):
    """Every lane of a sweep with its number, by point and seed, and a hash of its policy."""
    found = []
    for path in sorted((out / "points").iterdir()):
        seeds = [each["seed"] for each in json.loads((path / "metrics.json").read_text())["per_seed"]]
        arrays = load_file(path / "policy.safetensors")
        for index, seed in enumerate(seeds):
            digest = hashlib.sha256()
            for name in sorted(arrays):
                digest.update(name.encode() + arrays[name][index].tobytes())
            found.append((path.name, seed, digest.hexdigest()))
    return found


def checkpoints(out, stage="learn"):
    """The chunks with a checkpoint of this stage, and its iteration."""
    found = {}
    for path in (out / "chunks").glob("*") if (out / "chunks").is_dir() else ():
        with contextlib.suppress(ConfigError, OSError, ValueError):  # it may be replaced meanwhile
            notes = tensors.notes_of(Folder(path, verify=False).read(store.CHECKPOINT), "checkpoint")
            if notes["stage"] == stage:
                found[path.name] = notes["iteration"]
    return found


def resumed(out):
    """Where chunks were continued: (chunk, stage, iteration)."""
    entries = []
    for file in (out / "chunks").glob("*/resumed.json"):
        entries += [(file.parent.name, each["stage"], each["iteration"]) for each in json.loads(file.read_text())]
    return entries


def start(file, out, *options, resume=False):
    """`edl sweep` in a process of its own."""
    words = [sys.executable, "-m", "edl.cli", "sweep", str(file), "--out", str(out), *options]
    with open(f"{out}.log", "ab") as log:
        process = subprocess.Popen([*words, *(["--resume"] if resume else [])], stdout=log, stderr=log)
    STARTED.append(process)
    return process


def run(file, out, *options, resume=False):
    """`edl sweep` to its end."""
    assert start(file, out, *options, resume=resume).wait() == 0, Path(f"{out}.log").read_text()[-3000:]


def children(pid, name):
    """The processes below ``pid`` whose command line contains ``name``."""
    listing = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()]
    below = {str(pid)}
    for _ in range(6):
        below |= {row[0] for row in rows if row[1] in below}
    return [int(row[0]) for row in rows if row[0] in below and row[0] != str(pid) and name in row[2]]


class Killer(threading.Thread):
    """Kills a random worker of a process every few seconds, at most ``most`` times, and counts.

    Between two kills the sweep has to save some work, ``progress``: otherwise a slow machine would never end.
    """

    def __init__(self, pid, name, seconds, progress, most=1000, seed=0):
        super().__init__(daemon=True)
        self.most = most
        self.pid, self.name_of_worker, self.seconds, self.progress = pid, name, seconds, progress
        self.random, self.killed, self.stopped = random.Random(seed), 0, threading.Event()

    def run(self):
        before = self.progress()
        while not self.stopped.wait(self.random.uniform(0.5, 1.5) * self.seconds):
            if self.progress() == before or self.killed == self.most:
                continue
            before = self.progress()
            workers = children(self.pid, self.name_of_worker)
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(workers), signal.SIGKILL)
                    self.killed += 1

    def stop(self):
        self.stopped.set()
        self.join()


def wait_for(condition, seconds=600.0):
    """Wait until a condition holds, and return what it returns."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("the condition did not come true in time")

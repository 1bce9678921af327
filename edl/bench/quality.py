"""Time to quality: seconds from process start to skills that reach their goals, with a cold and a warm cache."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

TARGETS = {"square": 0.95, "bottleneck": 0.9}
"""The goal_success that a run must reach, per env."""
LIMIT = 3600
"""Seconds after which a run is stopped."""


class Quality(NamedTuple):
    """One run: seconds until the process ends, how many of them went into compiling, and the goal_success."""

    env: str
    cache: str
    seconds: float
    compile_seconds: float
    goal_success: float
    target: float

    @property
    def reached(self) -> bool:
        return self.goal_success >= self.target


def time_to_quality(env: str) -> list[Quality]:
    """The same run twice: with an empty compile cache, and with the cache that the first run wrote."""
    with tempfile.TemporaryDirectory(prefix="edl-bench-") as folder:
        return [_measure(env, cache, Path(folder)) for cache in ("cold", "warm")]


def _measure(env: str, cache: str, folder: Path) -> Quality:
    out = folder / cache
    words = [sys.executable, "-m", "edl.cli", "run", "--env", env, "--out", str(out)]
    settings = {**os.environ, "EDL_CACHE": str(folder / "cache")}
    settings.pop("JAX_COMPILATION_CACHE_DIR", None)
    began = time.perf_counter()
    subprocess.run(words, env=settings, check=True, capture_output=True, timeout=LIMIT)
    seconds = time.perf_counter() - began
    found = json.loads((out / "metrics.json").read_text())
    success = found["aggregate"]["goal_success"]["mean"]
    return Quality(env, cache, seconds, found["seconds"]["compile"], success, TARGETS[env])

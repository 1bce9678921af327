"""The whole benchmark: the contestants, the rounds, and the results for the table and the JSON file."""

import importlib.util
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from edl.bench import ours, quality, robots, seeds
from edl.bench.quality import Quality
from edl.bench.timing import Contestant, Row, race, warm_up
from edl.config import check_name
from edl.interop import peers

PARTS = {
    "env": "env steps without learning",
    "train": "training steps at the paper's recipe, one run and many in one program",
    "updates": "updates of the VQ-VAE and of SMM (SAC)",
    "seeds": "ten seeds on one core and on all, next to rejax",
    "peers": "PPO of other libraries",
    "robots": "an ant on MJX alone and in training, next to Brax's PPO; it needs an accelerator, and must be named",
    "quality": "seconds from process start to goal_success, cold and warm",
}
MODULES = {"SB3": "stable_baselines3", "SBX": "sbx", "rejax": "rejax"}
"""The module of a peer, by the first word of its name."""
ON_REQUEST = ("robots",)
"""Parts that are left out unless they are named."""
LONG = 100
"""Iterations of one run that take about half a second on a large GPU."""


class BenchResult(NamedTuple):
    """All results. ``notes`` list what was left out, and why."""

    device: str
    rows: list[Row]
    quality: list[Quality]
    roofline: str | None
    peak_memory: int
    notes: list[str]


def bench(
    only: Sequence[str] = (), quick: bool = False, on_ready: Callable[[str], None] = lambda line: None
) -> BenchResult:
    """Measure these parts, or all but those `ON_REQUEST`. ``quick`` uses few rounds and small programs."""
    for name in only:
        check_name(name, PARTS, "part of the benchmark")
    chosen = [name for name in PARTS if name in only or not (only or name in ON_REQUEST)]
    notes: list[str] = []
    contestants: list[Contestant] = []
    for make in _makers(chosen, quick, notes):
        try:
            contestants += map(warm_up, make())
        except Exception as error:  # e.g. a peer of another version: leave it out and note it
            message = str(error).partition("\n")[0][:150]
            notes.append(f"left out: {type(error).__name__}: {message}")
        else:
            on_ready(f"ready: {contestants[-1].name}")
    rows = race(contestants, 3 if quick else 9)
    found = [each for env in quality.TARGETS for each in quality.time_to_quality(env)] if "quality" in chosen else []
    notes += robots.shares(rows)
    device = jax.devices()[0]
    return BenchResult(device.device_kind, rows, found, roofline(rows), peak_memory(), notes)


def _makers(chosen: Sequence[str], quick: bool, notes: list[str]) -> list[Callable[[], list[Contestant]]]:
    """Functions that create the contestants. Creating one compiles it."""
    makers: list[Callable[[], list[Contestant]]] = []
    cpu = jax.default_backend() == "cpu"
    iterations = 2 if quick else 10
    if "env" in chosen:
        makers.append(lambda: [ours.env_steps()])
    if "train" in chosen or "peers" in chosen:
        makers.append(lambda: [ours.peak()])
        widths = (ours.CPU_WIDTHS if cpu else ours.WIDTHS) if "train" in chosen else (1,)
        widths = widths[: 1 if quick else None]
        for width in widths:
            # A call lasts about as long as a chunk of a run; shorter calls would measure the cost of starting one.
            turns = iterations if cpu else max(iterations, LONG // width)
            makers.append(lambda width=width, turns=turns: [ours.training(width, turns)])
        if "train" in chosen and len(widths) < len(ours.WIDTHS):
            notes.append(f"training: {', '.join(map(str, widths))} at once, of {', '.join(map(str, ours.WIDTHS))}")
    if "seeds" in chosen:
        makers += seeds.makers(iterations, notes)
    if "robots" in chosen:
        makers += robots.makers(quick, notes)
    if "updates" in chosen:
        makers.append(lambda: list(ours.updates()))
    for name, make in peers.PEERS.items() if "peers" in chosen else ():
        if importlib.util.find_spec(MODULES[name.split()[0]]) is None:
            notes.append(f"{name}: not installed. In a checkout, `pip install '.[bench]'` installs it.")
            continue
        makers.append(lambda name=name, make=make: [_peer(name, make, iterations)])
    return makers


def _peer(name: str, make: Callable[[int], Callable[[], Any]], iterations: int) -> Contestant:
    return Contestant(name, "env steps/s", iterations * peers.BATCH, make(iterations))


def roofline(rows: Sequence[Row]) -> str | None:
    """Training speed as a share of the peak speed of large matrix products, measured in the same rounds."""
    limit = next((row for row in rows if row.unit == "FLOP/s"), None)
    trained = [row for row in rows if row.flops is not None and row.unit != "FLOP/s"]
    if limit is None or not trained:
        return None
    best = max(trained, key=lambda row: row.flops or 0.0)
    flops = best.flops or 0.0
    per_step = flops / best.rate
    return (
        f"{best.name}: {per_step / 1e3:.0f} kFLOP per step x {best.rate:,.0f} steps/s = {flops / 1e9:.1f} GFLOP/s, "
        f"{100 * flops / limit.rate:.0f} % of the {limit.rate / 1e9:.1f} GFLOP/s that a {limit.name} product reaches"
    )


def peak_memory() -> int:
    """Peak memory in bytes: of the device if it keeps count, else of this process."""
    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return int(stats["peak_bytes_in_use"])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

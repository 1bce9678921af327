"""The whole benchmark: who takes part, on which device, and the table, the JSON and the roofline that come of it."""

import importlib.util
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from edl.config import ConfigError
from edl.bench import ours, quality
from edl.bench.quality import Quality
from edl.bench.timing import Contestant, Row, race, warm_up
from edl.interop import peers

PARTS = {
    "env": "steps of the world alone",
    "train": "training steps at the paper's recipe, one run and many in one program",
    "updates": "updates of the VQ-VAE and of SMM (SAC)",
    "peers": "other libraries' PPO beside ours",
    "quality": "seconds from process start to goal_success, cold and warm",
}
MODULES = {"SB3": "stable_baselines3", "SBX": "sbx", "rejax": "rejax"}
"""What a peer, by the first word of its name, is installed as."""
LONG = 100
"""Iterations of one run in a piece that lasts half a second on a large GPU."""


class Found(NamedTuple):
    """All that was measured. ``notes`` say what was left out, and why."""

    device: str
    rows: list[Row]
    quality: list[Quality]
    roofline: str | None
    peak_memory: int
    notes: list[str]


def bench(only: Sequence[str] = (), quick: bool = False, say: Callable[[str], None] = lambda line: None) -> Found:
    """Measure ``only`` these parts, or all. ``quick`` takes few rounds and the narrow programs alone."""
    for name in only:
        if name not in PARTS:
            raise ConfigError(f"--only {name}: one of {', '.join(PARTS)} is wanted.")
    chosen = [name for name in PARTS if not only or name in only]
    notes: list[str] = []
    contestants: list[Contestant] = []
    for make in _makers(chosen, quick, notes):
        try:
            contestants += map(warm_up, make())
        except Exception as error:  # a peer of another version, a program too wide: that one is left out, and named
            notes.append(f"left out: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
        else:
            say(f"ready: {contestants[-1].name}")
    rows = race(contestants, 3 if quick else 9)
    found = [each for env in quality.TARGETS for each in quality.time_to_quality(env)] if "quality" in chosen else []
    device = jax.devices()[0]
    return Found(device.device_kind, rows, found, roofline(rows), peak_memory(), notes)


def _makers(chosen: Sequence[str], quick: bool, notes: list[str]) -> list[Callable[[], list[Contestant]]]:
    """What makes each contestant; making one compiles it."""
    makers: list[Callable[[], list[Contestant]]] = []
    cpu = jax.default_backend() == "cpu"
    iterations = 2 if quick else 10
    if "env" in chosen:
        makers.append(lambda: [ours.worlds()])
    if "train" in chosen or "peers" in chosen:
        makers.append(lambda: [ours.peak()])
        widths = (ours.CPU_WIDTHS if cpu else ours.WIDTHS) if "train" in chosen else (1,)
        widths = widths[: 1 if quick else None]
        for width in widths:
            # A call should last about as long as a piece of a run does, or what it costs to begin one is measured.
            turns = iterations if cpu else max(iterations, LONG // width)
            makers.append(lambda width=width, turns=turns: [ours.training(width, turns)])
        if "train" in chosen and len(widths) < len(ours.WIDTHS):
            notes.append(f"training: {', '.join(map(str, widths))} at once, of {', '.join(map(str, ours.WIDTHS))}")
    if "updates" in chosen:
        makers.append(lambda: list(ours.updates()))
    for name, make in peers.PEERS.items() if "peers" in chosen else ():
        if importlib.util.find_spec(MODULES[name.split()[0]]) is None:
            notes.append(f"{name}: not installed. `pip install edl[bench]` brings it.")
            continue
        makers.append(lambda name=name, make=make: [_peer(name, make, iterations)])
    return makers


def _peer(name: str, make: Callable[[int], Callable[[], Any]], iterations: int) -> Contestant:
    return Contestant(name, "env steps/s", iterations * peers.BATCH, make(iterations))


def roofline(rows: Sequence[Row]) -> str | None:
    """How near training comes to the products of large matrices on the same device, measured in the same rounds."""
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
    """Bytes: of the device, where it keeps count; else of this process."""
    told = jax.devices()[0].memory_stats()
    if told and "peak_bytes_in_use" in told:
        return int(told["peak_bytes_in_use"])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

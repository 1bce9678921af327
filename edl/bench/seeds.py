"""Ten seeds in one program, on one core and on all cores, next to rejax's vmap over seeds.

Each contestant lives in a process of its own, because the cores and devices of a process are fixed when it starts.
"""

import importlib.util
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import jax

from edl.bench.timing import Contestant, Timed, clock
from edl.runtime import devices, threefry

SEEDS = 10


def makers(iterations: int, notes: list[str]) -> list[Callable[[], list[Contestant]]]:
    """Functions that create the contestants."""
    cores = devices.available_cores()
    counts = [cores[:1], cores] if len(cores) > 1 else [cores]
    entries = [("ours", _ours, each) for each in counts]
    if importlib.util.find_spec("rejax") is None:
        notes.append("rejax, ten seeds: not installed. In a checkout, `pip install '.[bench]'` installs it.")
    else:
        entries += [("rejax", _rejax, each) for each in counts]
    return [lambda entry=entry: [_contestant(*entry, iterations)] for entry in entries]


def _contestant(name: str, make: Callable[[int], tuple], cores: list[int], iterations: int) -> Contestant:
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(theirs, make, cores, iterations), daemon=True)
    process.start()
    theirs.close()
    amount = ours.recv()

    def go() -> Timed:
        ours.send(None)
        return Timed(*ours.recv())

    label = f"{len(cores)} core{'s' if len(cores) > 1 else ''}"
    return Contestant(f"{name}, {SEEDS} seeds, {label}", "env steps/s", amount, go)


def _serve(pipe: Connection, make: Callable[[int], tuple[float, Callable]], cores: list[int], iterations: int) -> None:
    """The process of a contestant: compile, then do the work once per message of the parent."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    jax.config.update("jax_platforms", "cpu")  # cores are compared, also on a machine with a GPU
    devices.enable()
    threefry.enable()  # as the command line does
    amount, go = make(iterations)
    pipe.send(amount)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        pipe.send(tuple(clock(go)))


def _ours(iterations: int) -> tuple[float, Callable[[], Any]]:
    from edl.bench.ours import training

    contestant = training(SEEDS, iterations)
    return contestant.amount, contestant.go


def _rejax(iterations: int) -> tuple[float, Callable[[], Any]]:
    from edl.interop import peers

    return SEEDS * iterations * peers.BATCH, peers.rejax(iterations, SEEDS)

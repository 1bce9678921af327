"""Measure what sweeps cost: python benchmarks/executors.py lanes | workers | chunks | ray [options].

lanes      env steps per second and memory of stage 3, by the number of lanes in one program, on the GPU or one CPU core
workers    seconds of one sweep by the number of worker processes, with a warm compile cache
chunks     CPU seconds of one small sweep by the number of lanes per chunk, with a warm compile cache
ray        seconds that Ray adds to tasks of one minute each, on a cluster of one core on this machine

Every line of the output is one measurement as JSON.
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
from typing import Any

RUN = {"env": "square", "explore": "random_walk", "discover": "kmeans", "num_skills": 10, "num_seeds": 1}
RECIPES = {
    "default": {"env": "square", "num_skills": 10, "learner": {"stop_at": 2.0}},
    "paper": {"env": "bottleneck", "preset": "paper", "explore": "oracle", "num_skills": 10},
}
"""Runs whose last stage is measured; ``stop_at`` lets no seed stop early."""
CPU_WIDTHS, GPU_WIDTHS = (1, 2, 4, 8, 16), (32, 64, 128, 256, 512)
WARM_SECONDS = 1.0
TASK_SECONDS = 60.0


def show(**facts: Any) -> None:
    print(json.dumps({**facts, "load": round(os.getloadavg()[0], 1)}), flush=True)


def backend() -> str:
    """What JAX runs on, asked in another process: this one must not use the device yet."""
    words = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def lanes(options: argparse.Namespace) -> None:
    on_cpu = backend() == "cpu"
    if on_cpu:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads
    from edl import runtime

    runtime.enable()
    for recipe in options.recipes:
        for width in options.widths or (CPU_WIDTHS if on_cpu else GPU_WIDTHS):
            show(recipe=recipe, lanes=width, **speed(recipe, width, options.seconds, on_cpu))


def speed(recipe: str, width: int, seconds: float, on_cpu: bool) -> dict[str, Any]:
    """Steps per second (of CPU time on a CPU) of the last stage, and the memory that the compiler reports."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from edl.runs.driver import advance, outline
    from edl.runs.lanes import needed_memory, select_lanes
    from edl.runs.pipeline import outlines, plan, stage_keys, work_of
    from edl.runs.presets import from_json
    from edl.runs.resolve import make_context, resolve_config

    clock = time.process_time if on_cpu else time.perf_counter
    config = resolve_config(from_json(RECIPES[recipe] | {"num_seeds": width}, "benchmark"))
    context, stage = make_context(config), plan(config)[-1]
    shapes = {name: each.artifact for name, each in outlines(config, context).items() if name != stage.name}
    inputs = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    work = select_lanes(work_of(stage, config, context, inputs), np.arange(width))
    facts, began, measured, counted = outline(work, width), None, None, (0, 0.0)
    compile_seconds = 0.0
    for tick in advance(work, stage_keys(config, stage.name)):
        began, compile_seconds = began or clock(), tick.compile_seconds
        if measured is None:
            measured = (tick.position.iteration, clock()) if clock() - began > WARM_SECONDS else None
            continue
        counted = (tick.position.iteration - measured[0], clock() - measured[1])
        if counted[1] > seconds:
            break
    rate = counted[0] * facts.env_steps * width / counted[1]
    bytes_of_all = needed_memory(work, width, None)
    return {
        ("steps_per_cpu_second" if on_cpu else "steps_per_second"): round(rate),
        "mib_per_lane": round(bytes_of_all / width / 2**20, 2),
        "mib": round(bytes_of_all / 2**20),
        "run_seconds": round(facts.iterations * facts.env_steps * width / rate, 1),
        "compile_seconds": round(compile_seconds, 1),
        "iterations": counted[0],
        "device": str(jax.devices()[0].device_kind),
    }


def learning_rates(points: int) -> dict[str, Any]:
    return {"learner.ppo.learning_rate": [round(1e-4 * 1.02**number, 9) for number in range(points)]}


def sweep_file(folder: Path, points: int, iterations: int) -> Path:
    file, learner = folder / f"sweep-{points}.json", {"distance": "euclidean", "ppo": {"iterations": iterations}}
    file.write_text(json.dumps({"run": RUN | {"learner": learner}, "grid": learning_rates(points)}))
    return file


def run_sweep(file: Path, out: Path, *words: Any) -> dict[str, float]:
    """`edl sweep` in a process of its own: its seconds, and its CPU seconds with those of its workers."""
    command = [sys.executable, "-m", "edl.cli", "sweep", str(file), "--out", str(out), *map(str, words)]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    markers = [path.stat().st_mtime for path in out.glob("chunks/*/done.json")]
    working = max(markers) - (out / "sweep.json").stat().st_mtime
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "chunk_seconds": round(working, 1),
        "cpu": round(spent, 1),
    }


def workers(options: argparse.Namespace) -> None:
    """``chunk_seconds`` are those from the start of the workers to the last chunk, without imports and figures."""
    from edl.runs.chunks import lanes_per_chunk

    words = ("--executor", "processes", *(("--max-lanes", options.max_lanes) if options.max_lanes else ()))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        file = sweep_file(place, options.points, options.iterations)
        chunk = options.max_lanes or lanes_per_chunk(backend())
        warm = sweep_file(place, min(options.points, chunk), options.iterations)  # compiles the programs of a chunk
        run_sweep(warm, place / "warm", *words, "--workers", 1)
        for count in options.counts:
            out = place / f"{count}"
            facts = run_sweep(file, out, *words, "--workers", count)
            chunks = len(list(out.glob("chunks/*/done.json")))
            show(workers=count, lanes=options.points, chunks=chunks, **facts)


def chunks(options: argparse.Namespace) -> None:
    """The difference between two numbers of lanes, divided by that of the chunks, is what a chunk costs."""
    words = ("--executor", options.executor, *(("--workers", 1) if options.executor != "local" else ()))
    with tempfile.TemporaryDirectory() as folder:
        file = sweep_file(Path(folder), options.points, options.iterations)
        for width in options.widths or (1, 2, 4, 8, 16):
            for turn in ("cold", "warm"):
                out = Path(folder) / f"{width}-{turn}"
                facts = run_sweep(file, out, *words, "--max-lanes", width)
                count = len(list(out.glob("chunks/*/done.json")))
                show(executor=options.executor, cache=turn, max_lanes=width, chunks=count, **facts)


def ray(options: argparse.Namespace) -> None:
    from edl.runs.executors import Task, run_tasks
    from edl.runs.executors.ray_cluster import RayExecutor

    executor = RayExecutor(None, 1, None)
    list(run_tasks(executor, [Task("warm", time.sleep, (0.0,))]))  # starts the worker
    began, count = time.perf_counter(), 3
    for _ in run_tasks(executor, [Task(str(number), time.sleep, (TASK_SECONDS,)) for number in range(count)]):
        pass
    spent = (time.perf_counter() - began) / count
    executor.close()
    show(task=TASK_SECONDS, seconds=round(spent, 3), percent=round(100 * (spent / TASK_SECONDS - 1), 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["lanes", "workers", "chunks", "ray"])
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES), help="of lanes")
    parser.add_argument("--widths", nargs="+", type=int, help="numbers of lanes, of lanes and chunks")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each program of lanes is measured")
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2], help="numbers of workers")
    parser.add_argument("--points", type=int, default=16, help="points of the sweep of workers and chunks")
    parser.add_argument("--iterations", type=int, default=60, help="of the learner, for workers and chunks")
    parser.add_argument("--max-lanes", type=int, default=0, help="lanes per chunk of workers; 0 means the default")
    parser.add_argument("--executor", choices=["local", "processes"], default="local", help="of chunks")
    options = parser.parse_args()
    {"lanes": lanes, "workers": workers, "chunks": chunks, "ray": ray}[options.what](options)


if __name__ == "__main__":
    main()

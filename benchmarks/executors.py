"""Measure what executors cost: python benchmarks/executors.py lanes | workers | ray.

lanes      environment steps per second of CPU time on one core, by the number of lanes of a program
workers    seconds of one small sweep in 1 and in 2 worker processes, with a warm compile cache
ray        seconds that Ray adds to tasks of one minute each, on a cluster of one core on this machine
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 60.0
RUN = {"env": "square", "explore": "random_walk", "discover": "kmeans", "num_skills": 10, "num_seeds": 1}


def lanes() -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    from edl import runtime

    runtime.enable()
    import jax
    import jax.numpy as jnp
    import numpy as np

    from edl.runs.driver import advance, outline
    from edl.runs.lanes import select_lanes
    from edl.runs.pipeline import outlines, plan, stage_keys, work_of
    from edl.runs.presets import from_json
    from edl.runs.resolve import make_context, resolve_config

    learner = {"distance": "euclidean", "stop_at": 2.0}
    for width in (1, 2, 4, 8, 16):
        config = resolve_config(from_json(RUN | {"num_seeds": width, "learner": learner}, "benchmark"))
        context, stage = make_context(config), plan(config)[-1]
        shapes = {name: each.artifact for name, each in outlines(config, context).items()}
        inputs = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        work = select_lanes(work_of(stage, config, context, inputs), np.arange(width))
        facts, began, first, last = outline(work, width), None, 0, 0
        for tick in advance(work, stage_keys(config, stage.name)):
            last = tick.position.iteration
            if began is None:
                began, first = time.process_time(), last
            elif time.process_time() - began > 8:
                break
        assert began is not None
        rate = (last - first) * facts.env_steps * width / (time.process_time() - began)
        print(json.dumps({"lanes": width, "steps_per_cpu_second": round(rate), "load": os.getloadavg()[0]}), flush=True)


def workers() -> None:
    from edl import runtime

    runtime.enable()
    from edl.runs import grid as grids
    from edl.runs import sweep

    learner = {"distance": "euclidean", "ppo": {"iterations": 60}}
    grid = grids.parse(
        {"run": RUN | {"learner": learner}, "grid": {"learner.ppo.learning_rate": [1e-4 * 1.1**i for i in range(32)]}},
        "benchmark",
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, count in enumerate((2, 1, 2, 1, 2)):  # the first one compiles
            out = Path(folder) / str(number)
            began, load = time.perf_counter(), os.getloadavg()[0]
            sweep.sweep(grid, out, execution=sweep.Execution("processes", count))
            seconds = time.perf_counter() - began
            if number:
                print(json.dumps({"workers": count, "seconds": round(seconds, 1), "load": load}), flush=True)
            shutil.rmtree(out)


def ray() -> None:
    from edl.runs.executors import Task, run_tasks
    from edl.runs.executors.ray_cluster import RayExecutor

    executor = RayExecutor(None, 1, None)
    list(run_tasks(executor, [Task("warm", time.sleep, (0.0,))]))  # starts the worker
    began, count = time.perf_counter(), 3
    for _ in run_tasks(executor, [Task(str(number), time.sleep, (SECONDS,)) for number in range(count)]):
        pass
    spent = (time.perf_counter() - began) / count
    executor.close()
    share = 100 * (spent / SECONDS - 1)
    print(
        json.dumps(
            {"task": SECONDS, "seconds": round(spent, 3), "percent": round(share, 2), "load": os.getloadavg()[0]}
        )
    )


if __name__ == "__main__":
    {"lanes": lanes, "workers": workers, "ray": ray}[sys.argv[1]]()

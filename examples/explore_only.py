"""Explore only: sample p(s) in a maze, measure its coverage, and use the states elsewhere."""

import numpy as np

import edl

run = edl.run("bottleneck", until="explore")  # stage 1 alone; `edl.explore("bottleneck")` returns only the states
print(f"{run.metrics['data_coverage']:.2f} of the maze was visited in {run.metrics['steps']['explore']:,} steps")

np.save("states.npy", np.asarray(run.states.samples))  # one row per state, for any other tool
run.plot("states").savefig("states.png")

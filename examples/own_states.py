"""Your own states: a dataset says where skills should go. Here they have to stay in one corridor of the maze."""

import numpy as np

import edl

rng = np.random.default_rng(0)
states = rng.uniform([-0.4, -4.4], [0.4, 0.4], (4000, 2))  # one row per state: x and y

skills = edl.discover(states, num_skills=4)
print("goals:", np.round(skills.goals, 2).tolist())

run = edl.learn("square", skills)  # edl.run("square", states=states, num_skills=4) does both
print(f"{run.metrics['goal_success']:.2f} of the rollouts reach their goal")
print("to go to (0, -3), use skill", run.pick([0.0, -3.0]))

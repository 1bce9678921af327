"""Your own states: a dataset says where skills should go. Here they have to stay in a narrow ring."""

import numpy as np

import edl

rng = np.random.default_rng(0)
angle, radius = rng.uniform(0, 2 * np.pi, 4000), rng.uniform(0.8, 1.2, 4000)
states = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)  # one row per state

skills = edl.discover(states, num_skills=6)
print("goals:", np.round(skills.goals, 2).tolist())

run = edl.learn("square", skills)  # edl.run("square", states=states, num_skills=6) does both
print(f"{run.metrics['goal_success']:.2f} of the rollouts reach their goal")
print("to go to (1, 0), use skill", run.pick([1.0, 0.0]))

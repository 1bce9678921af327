"""Your own goals: learn one skill per goal, without exploring or discovering anything."""

import edl

goals = [[0.0, -2.0], [2.0, -2.0], [2.0, 0.0], [2.0, -4.0]]  # positions in the maze; see run.plot() for the axes

run = edl.learn("square", goals)
print(run)

for number, goal in enumerate(goals):
    ends = run.rollout(number, n=20).features[:, -1]
    print(f"skill {number}: goal {goal}, mean end {ends.mean(axis=0).round(2)}")

"""Skills in a controller: a Gymnasium env whose actions are skills, for any RL library.

Here a controller that always picks the skill nearest to the target finds the exit of a maze.
"""

import gymnasium
import numpy as np

import edl
from edl.interop.skill_env import SkillEnv

edl.register_gymnasium_envs()
run = edl.run("square", num_skills=10)

env = SkillEnv(gymnasium.make("edl/Square-v0"), run.numpy_policy(), hold=10)  # one action lasts ten steps
exit_at = np.array([2.0, 0.0])
observation, _ = env.reset(seed=0)
ended = False
while not ended:
    observation, reward, terminated, truncated, _ = env.step(run.pick(exit_at))
    ended = terminated or truncated
print(f"the exit is at {exit_at}, the agent is at {np.round(observation[:2], 2)}")

# stable_baselines3.PPO("MlpPolicy", env).learn(10_000) trains a controller instead.

"""Your own environment: a Gymnasium env, and the dimensions of its observation that skills are about."""

import gymnasium
import numpy as np

import edl


class Boat(gymnasium.Env):
    """A boat with momentum on a round lake. It observes its position and its velocity."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.velocity = np.zeros(2), np.zeros(2)
        return self.observation(), {}

    def step(self, action):
        self.velocity = 0.8 * self.velocity + 0.1 * np.clip(action, -1, 1)
        self.position = self.position + self.velocity
        shore = max(1.0, np.linalg.norm(self.position) / 4.0)
        self.position = self.position / shore
        return self.observation(), 0.0, False, False, {}

    def observation(self):
        return np.concatenate([self.position, self.velocity]).astype(np.float32)


less_training = {"explorer": {"sac": {"iterations": 15}}, "learner": {"sac": {"iterations": 5}}}  # this env is easy
run = edl.run(Boat, features="0,1", horizon=40, num_skills=6, **less_training)
print(run)
print(run.metrics["proof"]["verdict"])

"""Two small Gymnasium envs of control: a unicycle car and a two-link arm. `benchmarks/gymnasium_defaults.py` runs them.

edl run --env tests.probes.control_envs:Unicycle --features 0,1 --horizon 50
edl run --env tests.probes.control_envs:Arm --features 0,1 --horizon 100
"""

from typing import Any

import gymnasium
import numpy as np


class Unicycle(gymnasium.Env):
    """A car on a field that can drive forwards and turn, and neither drive sideways nor turn on the spot."""

    def __init__(self):
        bounds = np.array([5.0, 5.0, 1.0, 1.0], np.float32)
        self.observation_space = gymnasium.spaces.Box(-bounds, bounds)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.position, self.heading = np.zeros(2), 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.position, self.heading = self.np_random.uniform(-0.1, 0.1, 2), self.np_random.uniform(-0.3, 0.3)
        return self.observation(), {}

    def step(self, action: Any):
        drive, turn = np.clip(action, -1.0, 1.0)
        speed = 0.125 * (1.0 + drive)
        self.heading += 1.6 * turn * speed
        direction = np.array([np.cos(self.heading), np.sin(self.heading)])
        self.position = np.clip(self.position + speed * direction, -5.0, 5.0)
        return self.observation(), 0.0, False, False, {}

    def observation(self) -> np.ndarray:
        parts = [self.position, [np.cos(self.heading), np.sin(self.heading)]]
        return np.concatenate(parts).astype(np.float32)


class Arm(gymnasium.Env):
    """An arm of two links in a horizontal plane, moved by torques at its joints. It sees its hand first."""

    links, step_time, damping = (1.0, 1.0), 0.05, 1.0

    def __init__(self):
        bounds = np.array([2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 10.0, 10.0], np.float32)
        self.observation_space = gymnasium.spaces.Box(-bounds, bounds)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.angles, self.velocities = np.zeros(2), np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.angles = np.array([0.0, np.pi / 2]) + self.np_random.uniform(-0.1, 0.1, 2)
        self.velocities = np.zeros(2)
        return self.observation(), {}

    def step(self, action: Any):
        """M(q) q'' + C(q, q') = u - damping q', for links of length 1 with masses of 1 at their ends."""
        (one, two), torques = self.velocities, 6.0 * np.clip(action, -1.0, 1.0)
        cosine, sine = np.cos(self.angles[1]), np.sin(self.angles[1])
        inertia = np.array([[3.0 + 2.0 * cosine, 1.0 + cosine], [1.0 + cosine, 1.0]])
        coupling = sine * np.array([-two * (2.0 * one + two), one**2])
        accelerations = np.linalg.solve(inertia, torques - coupling - self.damping * self.velocities)
        self.velocities = np.clip(self.velocities + self.step_time * accelerations, -10.0, 10.0)
        self.angles = self.angles + self.step_time * self.velocities
        return self.observation(), 0.0, False, False, {}

    def observation(self) -> np.ndarray:
        first, second = self.angles[0], self.angles.sum()
        hand = [np.cos(first) + np.cos(second), np.sin(first) + np.sin(second)]
        turned = [np.cos(first), np.sin(first), np.cos(self.angles[1]), np.sin(self.angles[1])]
        return np.concatenate([hand, turned, self.velocities]).astype(np.float32)

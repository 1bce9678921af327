"""A small Gymnasium env for tests: a point on a line, which can fail in several ways."""

import os

import gymnasium
import numpy as np


class Line(gymnasium.Env):
    """Position and velocity on a line. At step ``when`` of every episode the env fails with ``trouble``, if any."""

    def __init__(self, discrete: bool = False, trouble: str = "", when: int = 3, ends: bool = False):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        box = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3, start=-1) if discrete else box
        self.trouble, self.when, self.ends = trouble, when, ends
        self.state, self.time = np.zeros(2), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.uniform(-0.1, 0.1, 2), 0
        return self.state.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        if self.time == self.when and self.trouble:
            return self.fail()
        push = float(np.ravel(action)[0])
        self.state = np.array([self.state[0] + 0.1 * push, push])
        return self.state.copy(), 0.0, self.ends and self.state[0] > 0.3, False, {}

    def fail(self):
        if self.trouble == "raise":
            raise RuntimeError("the motor is on fire")
        if self.trouble == "die":
            os._exit(7)
        bad = np.array([np.nan, 0.0]) if self.trouble == "nan" else np.zeros(3)
        return bad, 0.0, False, False, {}


class Lamp(Line):
    """A line that renders: a white column at the position, in a black picture of 480 x 640 pixels."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  Gymnasium's name and type

    def __init__(self, render_mode=None, **settings):
        super().__init__(**settings)
        self.render_mode = render_mode

    def render(self):
        assert self.render_mode == "rgb_array"
        if os.environ.get("LAMP_IS_BROKEN"):
            raise RuntimeError("there is no display")
        picture = np.zeros((480, 640, 3), np.uint8)
        column = int(np.clip(320 + 300 * self.state[0], 0, 620))
        picture[:, column : column + 20] = 255
        return picture


class FailingLine(Lamp):
    """Fails at its third step with the trouble in the environment variable ``LINE_TROUBLE``, in any process."""

    def step(self, action):
        self.trouble, self.when = os.environ.get("LINE_TROUBLE"), 3
        return super().step(action)


class Closing(Line):
    """Counts the envs that are open."""

    opened = 0

    def __init__(self):
        super().__init__()
        Closing.opened += 1

    def close(self):
        Closing.opened -= 1

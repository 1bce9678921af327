"""`SkillEnv`: an environment whose actions are skills. Any RL library can train a controller on it.

run = edl.load("runs/car")
env = SkillEnv(gymnasium.make("MountainCarContinuous-v0"), run.numpy_policy(), hold=20)
stable_baselines3.PPO("MlpPolicy", env).learn(10_000)
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from edl.config import ConfigError
from edl.interop.numpy_skills import NumpySkills

MARGIN = 0.25
"""Codes may leave the box around the trained ones by this share of its sides: blends are inside, and a bit beyond."""


class SkillEnv(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """An action is a skill's number (Discrete), or a code (Box, with ``blend``), held for ``hold`` steps.

    The reward is the sum of those on the way, discounted by ``discount`` a step if that is below 1; ``info["steps"]``
    says how many there were. Skills act as in training, at random; ``deterministic`` ones do what is most ordinary.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        skills: NumpySkills,
        hold: int = 10,
        *,
        blend: bool = False,
        deterministic: bool = False,
        discount: float = 1.0,
    ):
        options = {"blend": blend, "deterministic": deterministic, "discount": discount}
        gymnasium.utils.RecordConstructorArgs.__init__(self, skills=skills, hold=hold, **options)
        gymnasium.Wrapper.__init__(self, env)
        if hold < 1:
            raise ConfigError(f"hold={hold}: at least one step is wanted.")
        wanted, got = skills.arrays["mean"].shape, env.observation_space.shape
        if got != wanted:
            raise ConfigError(f"an environment that observes {got}: these skills see {wanted}. Give their own world.")
        self.skills, self.hold, self.deterministic, self.discount = skills, hold, deterministic, discount
        low, high = skills.codes.min(axis=0), skills.codes.max(axis=0)
        room = MARGIN * (high - low)
        codes = gymnasium.spaces.Box(low - room, high + room, dtype=np.float32)
        self.action_space = codes if blend else gymnasium.spaces.Discrete(skills.num_skills)
        self._seen: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the world."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._seen, info = self.env.reset(seed=seed, options=options)
        return self._seen, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Follow a skill for ``hold`` steps, or until the episode ends."""
        code = int(action) if isinstance(self.action_space, gymnasium.spaces.Discrete) else np.asarray(action)
        total, terminated, truncated, info, steps = 0.0, False, False, {}, 0
        while steps < self.hold and not (terminated or truncated):
            self._seen, reward, terminated, truncated, info = self.env.step(self._act(code))
            total += float(reward) * self.discount**steps
            steps += 1
        return self._seen, total, terminated, truncated, {**info, "steps": steps}

    def _act(self, code: Any) -> Any:
        if self.deterministic:
            action = self.skills.mode(self._seen, code)
        else:
            action = self.skills.act(self.np_random, self._seen, code)
        space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action) + int(space.start)
        assert isinstance(space, gymnasium.spaces.Box)
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)

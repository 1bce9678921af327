"""`SkillEnv`: a Gymnasium env whose actions are skills. Any RL library can train a controller on it.

    run = edl.load("runs/car")
    env = SkillEnv(gymnasium.make("MountainCarContinuous-v0"), run.numpy_policy(), hold=20)
    stable_baselines3.PPO("MlpPolicy", env).learn(10_000)

One action of the controller lasts ``hold`` steps of the inner env. Skills that see the time left are asked to be at
their goal after these steps.
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from edl.config import ConfigError
from edl.interop.numpy_skills import NumpySkills

MARGIN = 0.25
"""The action space extends the box around the trained codes by this fraction of its sides."""


class SkillEnv(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """An action is the number of a skill (Discrete), or a code (Box, with ``blend``), held for ``hold`` steps.

    The reward is the sum of the rewards of these steps, discounted by ``discount`` per step; ``info["steps"]`` is their
    number. Skills sample their actions as in training, unless ``deterministic`` is set.
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
            raise ConfigError(f"hold must be at least 1 (got {hold}).")
        expected, got = (len(skills.arrays["mean"]) - (skills.horizon > 0),), env.observation_space.shape
        if got != expected:
            raise ConfigError(
                f"observations must have shape {expected}, as in the env of these skills (got {got}). Use that env."
            )
        self.skills, self.hold, self.deterministic, self.discount = skills, hold, deterministic, discount
        low, high = skills.codes.min(axis=0), skills.codes.max(axis=0)
        margin = MARGIN * (high - low)
        codes = gymnasium.spaces.Box(low - margin, high + margin, dtype=np.float32)
        self.action_space = codes if blend else gymnasium.spaces.Discrete(skills.num_skills)
        self._observation: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Follow a skill for ``hold`` steps, or until the episode ends."""
        code = int(action) if isinstance(self.action_space, gymnasium.spaces.Discrete) else np.asarray(action)
        total, terminated, truncated, info, steps = 0.0, False, False, {}, 0
        while steps < self.hold and not (terminated or truncated):
            self._observation, reward, terminated, truncated, info = self.env.step(self._act(code, self.hold - steps))
            total += float(reward) * self.discount**steps
            steps += 1
        return self._observation, total, terminated, truncated, {**info, "steps": steps}

    def _act(self, code: Any, left: int) -> Any:
        """The action of a skill that is held for ``left`` more steps."""
        time = self.skills.horizon - left
        if self.deterministic:
            action = self.skills.mode(self._observation, code, time)
        else:
            action = self.skills.act(self.np_random, self._observation, code, time)
        space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action) + int(space.start)
        assert isinstance(space, gymnasium.spaces.Box)
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)

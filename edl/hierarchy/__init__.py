"""Skills put to use: sparse tasks, a controller whose actions are frozen skills, and what it is compared with."""

from edl.hierarchy.controller import ControlConfig, controller, flat, play_tasks, zero_shot
from edl.hierarchy.envs import GoalWorld, SkillWorld

__all__ = ["ControlConfig", "GoalWorld", "SkillWorld", "controller", "flat", "play_tasks", "zero_shot"]

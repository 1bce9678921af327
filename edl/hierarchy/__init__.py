"""Controllers over frozen skills on sparse goal tasks, and the baselines without a controller."""

from edl.hierarchy.controller import ControlConfig, controller, play_tasks, ppo_without_skills, zero_shot_success
from edl.hierarchy.envs import GoalEnv, SkillActionEnv
from edl.hierarchy.tasks import TASKS, Task, TaskConfig

__all__ = [
    "TASKS",
    "ControlConfig",
    "GoalEnv",
    "SkillActionEnv",
    "Task",
    "TaskConfig",
    "controller",
    "play_tasks",
    "ppo_without_skills",
    "zero_shot_success",
]

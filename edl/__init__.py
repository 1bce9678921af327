"""Explore, Discover and Learn (Campos et al., ICML 2020): unsupervised discovery of state-covering skills, in JAX.

    run = edl.run("square", num_skills=10, out="runs/square")
    run = edl.load("runs/square")
    states = edl.explore("square")

The names below are the public interface. Each is imported when it is first used, so that ``import edl`` is fast and a
machine without Gymnasium, tyro or matplotlib can train. Importing `edl` changes nothing in the process.
"""

import importlib
from typing import TYPE_CHECKING, Any

from edl.citation import citation

if TYPE_CHECKING:
    from edl import discover, evaluate, explore, learn
    from edl.api.programs import run_to_end
    from edl.api.runs import Run, load, run
    from edl.api.stages import baseline
    from edl.artifacts import SkillModel, SkillPolicy, States
    from edl.envs.registry import register as register_env
    from edl.envs.rollout import Episode, Skill
    from edl.interop.env_names import make_env_for_user as make_env
    from edl.interop.registration import register_envs as register_gymnasium_envs
    from edl.objective import Objective
    from edl.program import Program

__version__ = "0.3.0.dev0"

__all__ = [
    "Episode",
    "Objective",
    "Program",
    "Run",
    "Skill",
    "SkillModel",
    "SkillPolicy",
    "States",
    "baseline",
    "citation",
    "discover",
    "evaluate",
    "explore",
    "learn",
    "load",
    "make_env",
    "register_env",
    "register_gymnasium_envs",
    "run",
    "run_to_end",
]

_PACKAGES = ("explore", "discover", "learn", "evaluate")
_LOCATIONS = {
    "Episode": "edl.envs.rollout:Episode",
    "Objective": "edl.objective:Objective",
    "Program": "edl.program:Program",
    "Run": "edl.api.runs:Run",
    "Skill": "edl.envs.rollout:Skill",
    "SkillModel": "edl.artifacts:SkillModel",
    "SkillPolicy": "edl.artifacts:SkillPolicy",
    "States": "edl.artifacts:States",
    "baseline": "edl.api.stages:baseline",
    "load": "edl.api.runs:load",
    "make_env": "edl.interop.env_names:make_env_for_user",
    "register_env": "edl.envs.registry:register",
    "register_gymnasium_envs": "edl.interop.registration:register_envs",
    "run": "edl.api.runs:run",
    "run_to_end": "edl.api.programs:run_to_end",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _PACKAGES:
        return importlib.import_module(f"edl.{name}")
    if name in _LOCATIONS:
        module, _, attribute = _LOCATIONS[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'edl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

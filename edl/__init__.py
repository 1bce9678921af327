"""Explore, Discover and Learn (Campos et al., ICML 2020): unsupervised discovery of state-covering skills, in JAX.

    run = edl.run(env="square", num_skills=10, out="runs/square")
    run = edl.load("runs/square")

The names below are the whole public interface. Each is imported when it is first asked for, so that ``import edl``
costs nothing and a machine without Gymnasium, tyro or matplotlib can still train.
"""

import importlib
from typing import TYPE_CHECKING, Any

from edl.citation import citation
from edl.interop import registration

if TYPE_CHECKING:
    from edl import discover, evaluate, explore, learn
    from edl.artifacts import SkillModel, SkillPolicy, States
    from edl.envs import make as make_env
    from edl.envs.rollout import Episode, Skill
    from edl.runs.result import Run, load
    from edl.runs.run import run
    from edl.objective import Objective
    from edl.program import Program

__version__ = "0.1.0"

registration.announce()  # Gymnasium, if and when the user imports it, knows edl/Bottleneck-v0 and the other worlds

__all__ = [
    "Episode",
    "Objective",
    "Program",
    "Run",
    "Skill",
    "SkillModel",
    "SkillPolicy",
    "States",
    "__version__",
    "citation",
    "discover",
    "evaluate",
    "explore",
    "learn",
    "load",
    "make_env",
    "run",
]

_HOMES = {
    "Episode": "edl.envs.rollout",
    "Objective": "edl.objective",
    "Program": "edl.program",
    "Run": "edl.runs.result",
    "Skill": "edl.envs.rollout",
    "SkillModel": "edl.artifacts",
    "SkillPolicy": "edl.artifacts",
    "States": "edl.artifacts",
    "load": "edl.runs.result",
    "run": "edl.runs.run",
}


def __getattr__(name: str) -> Any:
    """Import a public name from where it lives, the first time it is asked for."""
    if name in ("explore", "discover", "learn", "evaluate"):
        return importlib.import_module(f"edl.{name}")
    if name == "make_env":
        return importlib.import_module("edl.envs").make
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'edl' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return __all__

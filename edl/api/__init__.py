"""The Python interface: `run` and `load`, the stages as functions, and the `Run` that they return.

    run = edl.run("square", num_skills=6, out="runs/square")
    run.metrics["goal_success"], run.policy, run.skills
    episodes = run.rollout(3, n=20)

Below this package, in `edl.runs`, every array has a leading axis of seeds. Here, a run of one seed has none.
"""

from edl.api.programs import run_to_end
from edl.api.runs import Run, load, run
from edl.api.stages import baseline, discover, explore, learn

__all__ = ["Run", "baseline", "discover", "explore", "learn", "load", "run", "run_to_end"]

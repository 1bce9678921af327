"""The recipe of METRA's authors for Ant and HalfCheetah, which all methods of that comparison share.

Networks, learning rates, batches, buffer, entropy and the normaliser of the observations are theirs (seohongpark/METRA,
tests/main.py): 10 million steps with 200 steps per episode, and one gradient step of the policy and of the model per 32
environment steps. Here an iteration plays 256 episodes and then makes 1600 gradient steps, where the authors play 8
and make 50, because 256 robots step as fast as 8 on an accelerator. ``rollouts`` of 8 is their setting; the table
``robot_envs`` compares them.
"""

import math
from typing import Any

from edl.rl.sac import SACConfig

HIDDEN = (1024, 1024)
LEARNING_RATE = 1e-4


def robot_sac(**changes: Any) -> SACConfig:
    """SAC of METRA's authors on robots: 2 x 1024 networks, one gradient step per 32 steps, target entropy -|A| / 2."""
    recipe: dict[str, Any] = {
        "iterations": 196,
        "rollouts": 256,
        "capacity": 1_000_000,
        "warmup": 10_000,
        "update_every": 32,
        "batch_size": 256,
        "hidden": HIDDEN,
        "random_episodes": 256,
        "learn_entropy_weight": True,
        # -1/2 per dimension is the entropy of a uniform distribution over this share of [-1, 1].
        "target_entropy_share": math.exp(-0.5) / 2,
        "entropy_weight": 0.01,
        "learning_rate": LEARNING_RATE,
    }
    return SACConfig(**(recipe | changes))


def robot_model(**changes: Any) -> dict[str, Any]:
    """Settings of a method whose model sees the whole observation and learns as often as the policy.

    ``changes`` are changes to SAC.
    """
    return {
        "hidden": HIDDEN,
        "learning_rate": LEARNING_RATE,
        "match_policy": True,
        "sees": "observation",
        "sac": robot_sac(**changes),
    }


def robot_directions(continuous: bool, **changes: Any) -> dict[str, Any]:
    """Settings of a method of METRA's family (`edl.baselines.directions`).

    Skills are on the unit circle (Ant), or discrete (HalfCheetah; the authors have 16).
    """
    return {"skills": "continuous" if continuous else "discrete", **robot_model(**changes)}


def robot_entropy(horizon: int, **changes: Any) -> dict[str, Any]:
    """Settings of a method that rewards the entropy of the batch (APT, CIC). Its model learns as often as the policy.

    Departs from URLB: the entropy is that of the features, x and y, as in our mazes, and not of the whole observation.
    This favours these methods in a comparison of coverage.
    """
    sac = robot_sac(**changes)
    steps = max(sac.rollouts * horizon // sac.update_every, 1)
    batches = {"minibatches": steps, "sac": robot_sac(**changes, objective_batch_size=steps * sac.batch_size)}
    return {"hidden": HIDDEN, "learning_rate": LEARNING_RATE, **batches}

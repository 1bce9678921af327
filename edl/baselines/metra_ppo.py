"""METRA with PPO (Park, Rybkin and Levine, ICLR 2024): the same reward, learned from the newest episodes alone.

The map, its constraint and the reward are those of `edl.baselines.metra`:

    r(s, s', z) = (phi(s') - phi(s)) . z,        ||phi(s) - phi(s')||^2 <= 1 for each move s -> s'

In each iteration, phi and lambda are fitted to the new episodes first, and then pay the reward. PPO plays thousands of
episodes side by side without replaying any, so the number of envs does not change how stale the data is.

Departs from the paper, which learns with SAC and from a replay buffer.
"""

from typing import Any

from edl.artifacts import SkillPolicy
from edl.baselines.directions import SkillKind, direction_objective, example_codes, with_map
from edl.baselines.metra import temporal_map
from edl.config import config
from edl.envs.base import Env
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo


@config
class METRAPPOConfig:
    """epsilon and first lambda are the authors'; PPO's settings are ours."""

    num_skills: int = 10
    """Number of skills, or of example codes to evaluate if skills are continuous."""
    skills: SkillKind = "discrete"
    """One-hot skills, or unit vectors."""
    skill_size: int = 2
    """Dimensions of a continuous skill."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi."""
    learning_rate: float = 1e-3
    """Learning rate of phi and of log lambda."""
    first_lambda: float = 30.0
    """Initial value of the multiplier lambda."""
    slack: float = 1e-3
    """epsilon, the largest slack of the constraint that counts."""
    minibatches: int = 50
    """Gradient steps of phi and lambda per iteration, over the new episodes."""
    ppo: PPOConfig = PPOConfig(iterations=300, entropy_weight=0.005)
    """Settings of PPO."""


def metra_ppo(env: Env, config: METRAPPOConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far, each in its own direction of the map phi. ``policy.model`` is phi."""
    method = temporal_map(config)
    objective = direction_objective(env, config, method, steps=config.minibatches)
    program = ppo(env, objective._replace(learns="before", needs="steps"), config.ppo, codes=example_codes(config))
    return with_map(env, program, config, method)

"""METRA: scalable unsupervised RL with metric-aware abstraction (Park, Rybkin and Levine, ICLR 2024).

Instead of the mutual information it maximises the Wasserstein dependency of states and skills under the temporal
distance, the least number of steps from one state to another:

    sup_{pi, phi}  E[ sum_t (phi(s_{t+1}) - phi(s_t)) . z ]     s.t. ||phi(s) - phi(s')||^2 <= 1 for each move s -> s'

phi(s) is thus a map of the env on which one step covers at most one unit, and a skill goes as far as it can in its own
direction of the map. By dual descent with a multiplier lambda >= 0 (their Eq. 10 and Algorithm 1):

    r(s, s', z) = (phi(s') - phi(s)) . z                                        maximised by SAC
    L_phi       = -E[ r + lambda min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]     over replayed moves
    L_lambda    = lambda E[ min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]

One of a family of methods (`edl.baselines.directions`), which has the priors over z and the rule that picks a skill.
`edl.baselines.metra_ppo` is METRA with PPO.

The defaults are for mazes. `METRAConfig.robot` is the authors' recipe for Ant and HalfCheetah: phi sees the whole
observation, normalised by the moments of random play, and networks, rates, batches, buffer, entropy and multiplier are
theirs (seohongpark/METRA, tests/main.py and iod/metra.py). It follows their code in descending on log lambda, in the
entropy of SAC, in bootstrapping at the time limit, and in the mean over dimensions in the constraint.

Departs from the authors' code:
- Without ``robot``, the constraint is on the squared norm, as in the paper (``constraint`` "sum"). Their code uses its
  mean over dimensions ("mean"), which allows steps of length sqrt(d) in d dimensions.
- In each iteration, phi and lambda make all their gradient steps before the policy. Their code alternates: one step of
  phi, one of lambda, one of the critics, one of the policy, on the same batch of 256. Here every step has its own.
- An iteration plays 256 episodes, where the authors play 8 (`edl.baselines.robot_recipes`).
- The fixed normaliser of the observations has the moments of whole episodes of random actions. Theirs has those of
  10,000 episodes of 50 random steps.
- phi makes its gradient steps from the first iteration on, and not only after the 10,000 steps of warm-up.
- The actor's last layer starts near zero, so the first actions are closer to the middle of their range.
- To reach x, their code computes the direction phi(x) - phi(s_t) again in every step. Here a skill lasts for the
  episode, as for all methods, and phi(s_0) is the mean over start states.

The log has lambda and the length of a step of phi: if lambda goes to 0, the constraint is lost.
"""

import dataclasses
from typing import Any, Literal

from edl.artifacts import SkillPolicy
from edl.baselines.constraints import constrained_loss, constrained_map
from edl.baselines.directions import DirectionConfig, DirectionMethod, train_directions
from edl.baselines.robot_recipes import robot_directions
from edl.config import config
from edl.envs.base import Env
from edl.program import Program
from edl.rl.sac import SACConfig


@config
class METRAConfig(DirectionConfig):
    """epsilon, first lambda and entropy are the authors'. With our networks, training takes minutes on two cores."""

    first_lambda: float = 30.0
    """Initial value of the multiplier lambda."""
    slack: float = 1e-3
    """epsilon, the largest slack of the constraint that counts."""
    constraint: Literal["sum", "mean"] = "sum"
    """The square of a step of phi in the constraint: summed over dimensions (paper), or their mean (authors' code)."""
    sac: SACConfig = dataclasses.replace(DirectionConfig.sac, iterations=700, normalise=True)
    """Settings of SAC."""

    @classmethod
    def robot(cls, continuous: bool, **changes: Any) -> "METRAConfig":
        """The authors' recipe: skills on the unit circle (Ant), or discrete ones (HalfCheetah; they have 16).

        10 million steps with 200 steps per episode. ``changes`` are changes to SAC.
        """
        return cls(constraint="mean", **robot_directions(continuous, **changes))


def metra(env: Env, config: METRAConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far, each in its own direction of the map phi. ``policy.model`` is phi, of raw inputs."""
    return train_directions(env, config, temporal_map(config, config.constraint))


def temporal_map(config: Any, constraint: Literal["sum", "mean"] = "sum") -> DirectionMethod:
    """The map of METRA: L_phi and L_lambda of the module docstring, for the bound 1."""
    return DirectionMethod(
        init=lambda key, inputs, size: constrained_map(key, (inputs, *config.hidden, size), config.first_lambda),
        phi=lambda params: params.phi,
        loss=lambda params, rows, directions: constrained_loss(params, rows, directions, 1.0, config.slack, constraint),
    )

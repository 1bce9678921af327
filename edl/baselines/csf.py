"""CSF: contrastive successor features (Zheng, Tuyls, Peng and Eysenbach, ICLR 2025).

One of METRA's family (`edl.baselines.directions`), without a constraint. Their analysis shows that METRA's dual loss is
close to a contrastive one, whose log-sum-exp keeps the steps of phi short:

    L_phi       = -E[ (phi(s') - phi(s)) . z - xi log sum_{i <= N} exp((phi(s') - phi(s)) . z_i) ],     z_i ~ p(z)
    r(s, s', z) = (phi(s') - phi(s)) . z

r is linear in z, so the critics learn successor features psi(s,z,a), with Q = psi . z (`edl.rl.successor`, without
generalised policy improvement). The target contains no entropy, and alpha is learned for a target entropy. xi = 5 and
N = 256 are the authors'. For a short step and z on the unit sphere of R^d, the log-sum-exp is log N + ||phi(s') -
phi(s)||^2 / (2 d), so the best length of a step in its own direction is about d / xi in every state.

A step that says little about z is short: its best length is that of (d / xi) E[z | s, s']. So a policy that hardly
differs between skills has a tiny reward, until alpha has decreased to its scale. In METRA phi grows until a step has
length 1, however little it says about z.

The defaults are for mazes. `CSFConfig.robot` is the authors' recipe for Ant and HalfCheetah (their repository
Princeton-RL/contrastive-successor-features, scripts/pretrain/csf): METRA's (`edl.baselines.robot_recipes`), with skills
on the unit circle in both.

Departs from the authors' code:
- The z_i are the N codes of the minibatch, which are draws of p(z) too. Theirs are drawn anew.
- Discrete skills are possible, as in METRA. The authors' are always continuous.
- In each iteration, phi makes all its gradient steps before the policy. Theirs alternate, on the same batch of 256.
- The hidden layers of the policy have ReLU, as all others. In their code (and METRA's) those of the policy have tanh,
  the default of a library below it. The first weights of the policy's last layer are a tenth of theirs.
- What `edl.baselines.metra` says of its recipe for robots is true here too: 256 episodes per iteration, the normaliser
  of observations, gradient steps of phi during the warm-up, and one skill per episode to reach x.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.directions import DirectionConfig, DirectionMethod, SkillKind, map_steps, progress, train_directions
from edl.baselines.model_fitting import Moves, weighted_mean
from edl.baselines.robot_recipes import robot_directions
from edl.config import config
from edl.envs.base import Env
from edl.nets.mlp import MLP, mlp
from edl.program import Program
from edl.types import Metrics, Scalar


@config
class CSFConfig(DirectionConfig):
    """xi and phi's batch size are the authors'. The learner's settings are those of METRA, with fewer iterations."""

    skills: SkillKind = "continuous"
    """One-hot skills, or unit vectors."""
    contrast: float = 5.0
    """xi, the weight of the log-sum-exp."""
    minibatches: int = 25
    """Gradient steps of phi per iteration, over the steps that SAC samples from its replay buffer."""

    @classmethod
    def robot(cls, **changes: Any) -> "CSFConfig":
        """The authors' recipe for Ant and HalfCheetah: skills on the unit circle, xi = 5.

        10 million steps with 200 steps per episode. ``changes`` are changes to SAC.
        """
        return cls(**robot_directions(continuous=True, **changes))


def csf(env: Env, config: CSFConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far in a map that tells their directions apart. ``policy.model`` is phi."""
    method = DirectionMethod(
        init=lambda key, inputs, size: mlp(key, (inputs, *config.hidden, size)),
        phi=lambda params: params,
        loss=lambda params, rows, directions: contrastive_loss(params, rows, directions, config.contrast),
    )
    return train_directions(env, config, method, linear=True)


def contrastive_loss(
    phi: MLP, rows: Moves, directions: Float[Array, "n z"], contrast: float | Scalar
) -> tuple[Scalar, Metrics]:
    """L_phi of the module docstring; the z_i are the directions of all rows."""
    steps = map_steps(phi, rows)
    mean_progress = weighted_mean(rows.weight, jax.vmap(progress)(steps, directions))
    log_sums = weighted_mean(rows.weight, jax.nn.logsumexp(steps @ directions.T, axis=1))
    squared_step = weighted_mean(rows.weight, jnp.sum(steps**2, axis=1))
    metrics = {"progress": mean_progress, "squared_step": squared_step, "log_sum_exp": log_sums}
    return contrast * log_sums - mean_progress, metrics

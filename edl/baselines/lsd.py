"""LSD: Lipschitz-constrained unsupervised skill discovery (Park, Choi, Kim, Lee and Kim, ICLR 2022).

The first method of METRA's family (`edl.baselines.directions`). A bound on I(S;Z) is reached by skills that hardly
move; LSD asks for long moves instead:

    max_{pi, phi}  E[ sum_t (phi(s_{t+1}) - phi(s_t)) . z ]        s.t. ||phi(x) - phi(y)|| <= ||x - y|| for all x, y
    r(s, s', z) = (phi(s') - phi(s)) . z

phi is 1-Lipschitz because every layer is: its weights are divided by their largest singular value (spectral
normalisation, Miyato et al., 2018), and ReLU is 1-Lipschitz. The singular vectors u, v of each layer follow the weights
by one power iteration per gradient step.

Departs from the authors' code:
- Continuous skills are uniform on the unit sphere as in METRA; theirs are z ~ N(0, I).
- They replay the newest episodes only (except for Humanoid); here, SAC's whole replay buffer.
- alpha is learned for a target entropy as in METRA; theirs is fixed.
- In each iteration, phi makes all its gradient steps before the policy.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.directions import (
    DirectionConfig,
    DirectionMethod,
    progress_loss,
    train_directions,
)
from edl.baselines.skill_priors import unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.nets.mlp import MLP, mlp
from edl.program import Program
from edl.types import Key

INITIAL_ITERATIONS = 30
"""Power iterations before the first gradient step."""


@config
class LSDConfig(DirectionConfig):
    """The learner's settings are those of `edl.baselines.metra`, with fewer iterations."""


class LipschitzMLP(eqx.Module):
    """A network that is not normalised yet, and the singular vectors u, v of each layer, without gradients."""

    net: MLP
    left: list[Float[Array, " _"]]
    right: list[Float[Array, " _"]]

    def normalised(self) -> MLP:
        """The 1-Lipschitz network: W / (u . W v) in every layer."""
        u, v = jax.lax.stop_gradient((self.left, self.right))
        weights = [w / jnp.maximum(a @ w @ b, 1e-6) for w, a, b in zip(self.net.weights, u, v, strict=True)]
        return MLP(weights, self.net.biases, self.net.activation)

    def follow(self) -> "LipschitzMLP":
        """One power iteration: v = W^T u / ||W^T u||, u = W v / ||W v||."""
        right = [unit_vector(u @ w) for w, u in zip(self.net.weights, self.left, strict=True)]
        left = [unit_vector(w @ v) for w, v in zip(self.net.weights, right, strict=True)]
        return LipschitzMLP(self.net, left, right)


def lipschitz_mlp(key: Key, sizes: tuple[int, ...]) -> LipschitzMLP:
    """An untrained network whose singular vectors have almost converged."""
    net_key, *keys = jax.random.split(key, len(sizes))
    net = mlp(net_key, sizes)
    left = [jax.random.normal(key, w.shape[:1]) for key, w in zip(keys, net.weights, strict=True)]
    first = LipschitzMLP(net, left, [jnp.zeros(w.shape[1]) for w in net.weights])
    return jax.lax.fori_loop(0, INITIAL_ITERATIONS, lambda _, each: each.follow(), first)


def lsd(env: Env, config: LSDConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far in a map whose distances are at most those of the states. ``policy.model`` is phi."""
    method = DirectionMethod(
        init=lambda key, inputs, size: lipschitz_mlp(key, (inputs, *config.hidden, size)),
        phi=LipschitzMLP.normalised,
        loss=lambda params, rows, directions: progress_loss(params.normalised(), rows, directions),
        after_step=LipschitzMLP.follow,
    )
    return train_directions(env, config, method)

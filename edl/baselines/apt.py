"""APT: behavior from the void, unsupervised active pre-training (Liu and Abbeel, NeurIPS 2021).

One policy without skills maximises the particle entropy of the states it visits (`edl.baselines.batch_entropy`),

    r(s, s') = log(1 + 1/k sum_{s_j in kNN(s')} ||h(s') - h(s_j)|| / scale)

in a space h that keeps what the agent can influence. As in the version of URLB for states (Laskin et al., 2021), h is
learned by an inverse and a forward model of the dynamics (Pathak et al., 2017):

    L = E||a - f_inv(h(s), h(s'))||^2 + E||h(s') - f_fwd(h(s), a)||^2

In the comparison it is the row of a method that explores and has no skills: the K rows of ``policy.codes`` are equal,
so all of them are the same policy.

Departs from URLB:
- SAC instead of DDPG.
- The errors are squared, as in Pathak et al.; theirs are norms.
- The reward of a step is that of the state s' it reaches; theirs is that of s, and is not divided by a scale.
- h is a network with hidden layers; theirs is one layer with layer normalisation and tanh.
See also `edl.baselines.batch_entropy`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.batch_entropy import BatchState, entropy_reward, learn_and_forget, no_particles, see_batch
from edl.baselines.model_fitting import weighted_mean
from edl.config import config
from edl.envs.base import Discrete, Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar

NO_SKILL = np.ones(1, np.float32)
"""The code of a policy without skills."""


@config
class APTConfig:
    """k is URLB's."""

    num_skills: int = 10
    """Number of rows of the comparison, which are all the same policy."""
    neighbours: int = 12
    """k, the number of nearest states of the batch."""
    representation: int = 8
    """Dimensions of h(s)."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of h and of both models."""
    learning_rate: float = 1e-3
    """Learning rate of h and of both models."""
    minibatches: int = 20
    """Gradient steps of h per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=300, rollouts=20, update_every=20, objective_batch_size=2560, entropy_weight=0.03
    )
    """Settings of SAC."""


class Dynamics(eqx.Module):
    """h, and the two models that train it."""

    embed: MLP
    inverse: MLP
    forward: MLP


class Steps(NamedTuple):
    """Rows of (s, a, s'). ``weight`` is 0 for steps after the episode's end."""

    before: Float[Array, "n s"]
    action: Float[Array, "n a"]
    after: Float[Array, "n s"]
    weight: Float[Array, " n"]


def apt(env: Env, config: APTConfig) -> Program[Any, SkillPolicy]:
    """Train one policy that visits states that are far from each other."""
    optimiser, size = optax.flatten(optax.adam(config.learning_rate)), config.representation

    def init(key: Key) -> BatchState:
        embed_key, inverse_key, forward_key = jax.random.split(key, 3)
        actions = action_size(env)
        dynamics = Dynamics(
            embed=mlp(embed_key, (env.feature_size, *config.hidden, size)),
            inverse=mlp(inverse_key, (2 * size, *config.hidden, actions)),
            forward=mlp(forward_key, (size + actions, *config.hidden, size)),
        )
        return BatchState(new_trained(optimiser, dynamics), no_particles(size))

    def reward(state: BatchState, reached: Float[Array, " s"], skill: Skill) -> Scalar:
        return entropy_reward(state.trained.params.embed(reached), state.particles, config.neighbours)

    def fit(key: Key, trained: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, trained, dynamics_loss, steps_of(env, episodes), 1, config.minibatches)

    objective = Objective(
        init,
        sample=lambda key, state: Skill(code=jnp.asarray(NO_SKILL), index=jnp.int32(0)),
        reward=per_visit(reward),
        update=learn_and_forget(fit, size),
        before_rewards=see_batch(lambda params: params.embed),
    )
    return sac(env, objective, config.sac, codes=jnp.tile(NO_SKILL, (config.num_skills, 1)))


def action_size(env: Env) -> int:
    """The number of columns of `action_vectors`."""
    space = env.action_space
    return space.n if isinstance(space, Discrete) else space.size


def action_vectors(env: Env, actions: Array) -> Float[Array, "n a"]:
    """Actions as vectors: one-hot if they are discrete, otherwise between -1 and 1."""
    space = env.action_space
    if isinstance(space, Discrete):
        return jax.nn.one_hot(actions, space.n)
    return 2 * (actions - space.low) / (space.high - space.low) - 1


def steps_of(env: Env, episodes: Episode) -> Steps:
    """Every step of every episode."""
    flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
    return Steps(
        before=flat(episodes.features[:, :-1]),
        action=action_vectors(env, flat(episodes.actions)),
        after=flat(episodes.features[:, 1:]),
        weight=flat(episodes.valid).astype(jnp.float32),
    )


def dynamics_loss(params: Dynamics, rows: Steps) -> tuple[Scalar, Metrics]:
    """The squared errors of the inverse and the forward model."""
    before, after = jax.vmap(params.embed)(rows.before), jax.vmap(params.embed)(rows.after)
    guessed = jax.vmap(params.inverse)(jnp.concatenate([before, after], axis=1))
    predicted = jax.vmap(params.forward)(jnp.concatenate([before, rows.action], axis=1))
    inverse_error = weighted_mean(rows.weight, jnp.sum((rows.action - guessed) ** 2, axis=1))
    forward_error = weighted_mean(rows.weight, jnp.sum((after - predicted) ** 2, axis=1))
    return inverse_error + forward_error, {"inverse_error": inverse_error, "forward_error": forward_error}

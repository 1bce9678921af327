"""DIAYN: Diversity Is All You Need (Eysenbach, Gupta, Ibarz and Levine, ICLR 2019).

    F = I(S;Z) + H(A|S) - I(A;Z|S) = H(Z) - H(Z|S) + H(A|S,Z)
      >= E[log q(z|s) - log p(z)] + H(A|S,Z),            r(s, z) = log q(z|s) - log p(z)           (their Eqs. 2 and 3)

A classifier should distinguish skills by the states they visit, not by their actions, and each skill should act as
randomly as that allows. SAC with a fixed entropy scale alpha = 0.1 provides H(A|S,Z). q(z|s) is a classifier fitted to
replayed states, with one gradient step per gradient step of SAC. p(z) is uniform and fixed, because a learned prior
loses skills (their Section 5). Rewards are computed again whenever a transition is sampled, because the classifier
keeps changing.

Departs from the authors' code:
- The reward is for the state reached, r_t = log q(z|s_{t+1}) - log p(z), as in the paper's Algorithm 1; their code uses
  s_t.
- The policy is a squashed Gaussian; theirs is a mixture of four.
- In each iteration the classifier makes all its gradient steps before the policy. Only the order differs.
- Many episodes are played between updates, because here they cost less than gradient steps.

`DIAYNConfig.robot` is the row of METRA's comparison on Ant and HalfCheetah: METRA's networks, rates, buffer and learned
entropy weight (`edl.baselines.robot_recipes`), and a classifier of the whole observation. Their row on Ant has
continuous skills of two dimensions and a Gaussian q(z|s). Here skills are discrete, as in the paper of DIAYN; use
--num-skills 16, as they do on HalfCheetah.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.goal_skills import start_observations
from edl.baselines.model_fitting import (
    Fitted,
    ModelInput,
    input_size,
    on_raw_inputs,
    on_target_features,
    sac_with_model,
    visits_of,
    with_model_inputs,
    with_model_steps,
)
from edl.baselines.pick_rules import NUM_STARTS, MostLikelySkill, with_pick_rule
from edl.baselines.reverse_mi import classifier_loss, reverse_reward
from edl.baselines.robot_recipes import robot_model
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import mlp
from edl.nets.normalise import identity_normaliser
from edl.nets.optim import new_trained, sgd
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig
from edl.types import Key, Metrics, Scalar


@config
class DIAYNConfig:
    """alpha, discount and batch size are the authors'. With 50-step episodes, training takes minutes on two cores."""

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    minibatches: int = 50
    """Gradient steps of the classifier per iteration, over the steps that SAC samples from its replay buffer."""
    match_policy: bool = False
    """Instead, the classifier makes as many gradient steps as the policy, with batches of the same size."""
    sees: ModelInput = "features"
    """The input of the classifier: the features that skills are about, or the whole observation."""
    sac: SACConfig = SACConfig(
        iterations=400,
        rollouts=20,
        update_every=20,
        objective_batch_size=6400,
        normalise=True,
        entropy_weight=0.1,
        tau=0.01,
    )
    """Settings of SAC."""

    @classmethod
    def robot(cls, **changes: Any) -> "DIAYNConfig":
        """METRA's comparison: 10 million steps with 200 steps per episode. ``changes`` are changes to SAC."""
        return cls(**robot_model(**changes))


def diayn(env: Env, config: DIAYNConfig) -> Program[Any, SkillPolicy]:
    """Train skills that a classifier can distinguish by the states they visit, and that otherwise act at random."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    size = input_size(env, config.sees)
    sac_config, steps = with_model_steps(env, config.sac, config.minibatches, config.match_policy)

    def init(key: Key) -> Fitted:
        classifier = mlp(key, (size, *config.hidden, config.num_skills))
        return Fitted(new_trained(optimiser, classifier), identity_normaliser(size))

    def visit_reward(state: Fitted, seen: Float[Array, " i"], skill: Skill) -> Scalar:
        return reverse_reward(state.model.params(seen), skill.index)

    def reward(state: Fitted, episode: Episode) -> Float[Array, " t"]:
        return per_visit(visit_reward)(state, with_model_inputs(episode, config.sees, state.normaliser))

    def update(key: Key, state: Fitted, episodes: Episode) -> tuple[Fitted, Metrics]:
        rows = visits_of(with_model_inputs(episodes, config.sees, state.normaliser))
        model, metrics = sgd(key, optimiser, state.model, classifier_loss, rows, 1, steps)
        return state._replace(model=model), metrics

    def pick_rule(state: Fitted) -> PickRule:
        classifier = on_raw_inputs(state, state.model.params, config.sees)
        start = jnp.mean(start_observations(jax.random.key(0), env, NUM_STARTS), axis=0)
        return MostLikelySkill(on_target_features(classifier, env, config.sees, start))

    objective = Objective(init, lambda key, state: sample_one_hot(key, config.num_skills), reward, update)
    program = sac_with_model(env, objective, sac_config, config.sees, jnp.eye(config.num_skills))
    return with_pick_rule(program, pick_rule)

"""Planning with the skills of DADS to reach a goal (Sharma et al., 2020, Section 4 and Algorithm 2).

This is model-predictive control whose actions are skills. q(s'|s,z) predicts the states that a sequence of skills leads
to, with each skill held for some steps. The policy plays the first skill of the best sequence for that long, and then a
new plan is made. MPPI finds the sequence: it draws candidates around a mean, weighs them by their return, and moves the
mean:

    mean <- sum_k w_k z_k,     w_k oc exp(gamma R_k),     R_k = -sum_t ||s_t - g||

With one-hot skills the mean contains the probability of every skill at each position of the sequence, and the same
formula is the cross-entropy method. The skills are trained without goals, and the policy does not observe the goal.

Departs from the paper: the R_k are scaled to [0, 1] over the candidates, so gamma has the same effect in every env.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.dads import SkillDynamics
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill, rollout_with_memory
from edl.types import Key


@config
class PlanConfig:
    """The paper's gamma and refinements. There, a skill is held for 10 steps and a plan is one skill long."""

    length: int = 4
    """Number of skills in a plan."""
    hold: int = 5
    """Number of steps for which each skill is held."""
    candidates: int = 64
    """Candidate plans per refinement."""
    refinements: int = 10
    """Number of times the mean is moved per plan."""
    gamma: float = 10.0
    """Sharpness of the candidates' weights."""
    spread: float = 1.0
    """Standard deviation of continuous candidates around the mean."""


class HeldSkill(NamedTuple):
    """The current skill, and the number of steps for which it is still held."""

    code: Float[Array, " z"]
    steps_left: Int[Array, ""]


def reach_goal(key: Key, env: Env, policy: SkillPolicy, goal: Float[Array, " s"], config: PlanConfig) -> Episode:
    """Play an episode with skills planned towards ``goal``. The policy must come from `edl.baselines.dads`."""
    dynamics: SkillDynamics = policy.model  # type: ignore[assignment]
    no_skill = HeldSkill(jnp.zeros(policy.codes.shape[-1]), jnp.int32(0))

    def act(key: Key, observation: Float[Array, " o"], held: HeldSkill) -> tuple[Array, Array, HeldSkill]:
        plan_key, act_key = jax.random.split(key)

        def replan(held: HeldSkill) -> HeldSkill:
            codes = plan(plan_key, dynamics, env.features(observation), goal, no_skill.code.shape[0], config)
            return HeldSkill(codes[0], jnp.int32(config.hold))

        held = jax.lax.cond(held.steps_left == 0, replan, lambda held: held, held)
        action = policy.act(act_key, observation, held.code)
        return action, jnp.zeros(0), HeldSkill(held.code, held.steps_left - 1)

    skill = Skill(code=no_skill.code, index=jnp.int32(-1), goal=goal)
    return rollout_with_memory(key, env, act, skill, lambda observation: no_skill)


def plan(
    key: Key,
    dynamics: SkillDynamics,
    state: Float[Array, " s"],
    goal: Float[Array, " s"],
    skill_size: int,
    config: PlanConfig,
) -> Float[Array, "h z"]:
    """The mean of MPPI after the last refinement; its most probable skill at each position if skills are one-hot."""

    def refine(mean: Float[Array, "h z"], key: Key) -> tuple[Float[Array, "h z"], None]:
        keys = jax.random.split(key, config.candidates)
        candidates = jax.vmap(lambda key: sample_candidate(key, mean, dynamics.discrete, config.spread))(keys)
        returns = jax.vmap(lambda codes: predicted_return(dynamics, state, codes, goal, config.hold))(candidates)
        return mppi_mean(candidates, returns, config.gamma), None

    middle = 1.0 / skill_size if dynamics.discrete else 0.0
    start = jnp.full((config.length, skill_size), middle)
    mean, _ = jax.lax.scan(refine, start, jax.random.split(key, config.refinements))
    return jax.nn.one_hot(jnp.argmax(mean, axis=1), skill_size) if dynamics.discrete else mean


def sample_candidate(key: Key, mean: Float[Array, "h z"], discrete: bool, spread: float | Array) -> Float[Array, "h z"]:
    """One-hot skills drawn with the probabilities in ``mean``, or ``mean`` plus noise, clipped to [-1, 1]."""
    if discrete:
        return jax.nn.one_hot(jax.random.categorical(key, jnp.log(mean + 1e-6)), mean.shape[1])
    return jnp.clip(mean + spread * jax.random.normal(key, mean.shape), -1.0, 1.0)


def predict_path(
    dynamics: SkillDynamics, state: Float[Array, " s"], codes: Float[Array, "h z"], hold: int
) -> Float[Array, "t s"]:
    """The predicted states of a sequence of skills, each held for ``hold`` steps."""

    def step(state: Float[Array, " s"], code: Float[Array, " z"]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        reached = dynamics.predict(state, code)
        return reached, reached

    return jax.lax.scan(step, state, jnp.repeat(codes, hold, axis=0))[1]


def predicted_return(
    dynamics: SkillDynamics, state: Float[Array, " s"], codes: Float[Array, "h z"], goal: Float[Array, " s"], hold: int
) -> Float[Array, ""]:
    """-sum_t ||s_t - g|| along the predicted path."""
    return -jnp.sum(jnp.linalg.norm(predict_path(dynamics, state, codes, hold) - goal, axis=1))


def mppi_mean(
    candidates: Float[Array, "n h z"], returns: Float[Array, " n"], gamma: float | Array
) -> Float[Array, "h z"]:
    """sum_k w_k z_k of the module docstring."""
    span = jnp.maximum(jnp.max(returns) - jnp.min(returns), 1e-6)
    weights = jax.nn.softmax(gamma * (returns - jnp.max(returns)) / span)
    return jnp.tensordot(weights, candidates, axes=1)

"""Planning in skill space, for a goal: what DADS learns a model for (Sharma et al., 2020, Section 4 and Algorithm 2).

Model-predictive control whose actions are skills: q(s'|s,z) foretells where a sequence of skills leads, each held for
some steps; the first skill of the best sequence is run for that long, and the plan is made anew. Sequences are found by
MPPI, which draws candidates around a mean, weighs them by how much they earn, and moves the mean there:

    mean <- sum_k w_k z_k,     w_k oc exp(gamma R_k),     R_k = -sum_t ||s_t - g||

With one-hot skills the mean holds, for each place in the sequence, the probability of every skill, and the same formula
is the cross-entropy method. No goal was known while the skills were learned, and none is seen by the policy.

Departs from the paper: the R_k are scaled to [0, 1] over the candidates, so that gamma means the same in every world.
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
    """The paper's gamma and number of refinements; it holds a skill for 10 steps and plans one ahead in open worlds."""

    length: int = 4
    """Skills in a plan."""
    hold: int = 5
    """Steps that each skill is run for."""
    candidates: int = 64
    refinements: int = 10
    gamma: float = 10.0
    spread: float = 1.0
    """Deviation of continuous candidates from the mean."""


class Intent(NamedTuple):
    """The skill at work, and for how many more steps."""

    code: Float[Array, " z"]
    left: Int[Array, ""]


def reach(key: Key, env: Env, policy: SkillPolicy, goal: Float[Array, " s"], config: PlanConfig) -> Episode:
    """Play an episode of skills that are planned towards ``goal``; the policy must come from `edl.baselines.dads`."""
    dynamics: SkillDynamics = policy.model  # type: ignore[assignment]
    idle = Intent(jnp.zeros(policy.codes.shape[-1]), jnp.int32(0))

    def act(key: Key, observation: Float[Array, " o"], intent: Intent) -> tuple[Array, Array, Intent]:
        plan_key, act_key = jax.random.split(key)

        def anew(intent: Intent) -> Intent:
            first = plan(plan_key, dynamics, env.features(observation), goal, idle.code.shape[0], config)[0]
            return Intent(first, jnp.int32(config.hold))

        intent = jax.lax.cond(intent.left == 0, anew, lambda intent: intent, intent)
        action = policy.act(act_key, observation, intent.code)
        return action, jnp.zeros(0), Intent(intent.code, intent.left - 1)

    towards = Skill(code=idle.code, index=jnp.int32(-1), goal=goal)
    return rollout_with_memory(key, env, act, towards, lambda observation: idle)


def plan(
    key: Key,
    dynamics: SkillDynamics,
    state: Float[Array, " s"],
    goal: Float[Array, " s"],
    skill_size: int,
    config: PlanConfig,
) -> Float[Array, "h z"]:
    """A sequence of skills that is foretold to stay near the goal, after getting there soon."""

    def refine(mean: Float[Array, "h z"], key: Key) -> tuple[Float[Array, "h z"], None]:
        keys = jax.random.split(key, config.candidates)
        candidates = jax.vmap(lambda key: propose(key, mean, dynamics.discrete, config.spread))(keys)
        returns = jax.vmap(lambda codes: foretold_return(dynamics, state, codes, goal, config.hold))(candidates)
        return weighted_mean(candidates, returns, config.gamma), None

    middle = 1.0 / skill_size if dynamics.discrete else 0.0
    start = jnp.full((config.length, skill_size), middle)
    mean, _ = jax.lax.scan(refine, start, jax.random.split(key, config.refinements))
    return jax.nn.one_hot(jnp.argmax(mean, axis=1), skill_size) if dynamics.discrete else mean


def propose(key: Key, mean: Float[Array, "h z"], discrete: bool, spread: float | Array) -> Float[Array, "h z"]:
    """A candidate: one-hot skills drawn with the probabilities in ``mean``, or points of the box around it."""
    if discrete:
        return jax.nn.one_hot(jax.random.categorical(key, jnp.log(mean + 1e-6)), mean.shape[1])
    return jnp.clip(mean + spread * jax.random.normal(key, mean.shape), -1.0, 1.0)


def foretell(
    dynamics: SkillDynamics, state: Float[Array, " s"], codes: Float[Array, "h z"], hold: int
) -> Float[Array, "t s"]:
    """The states that a sequence of skills leads through, each held for ``hold`` steps."""

    def step(state: Float[Array, " s"], code: Float[Array, " z"]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        reached = dynamics.predict(state, code)
        return reached, reached

    return jax.lax.scan(step, state, jnp.repeat(codes, hold, axis=0))[1]


def foretold_return(
    dynamics: SkillDynamics, state: Float[Array, " s"], codes: Float[Array, "h z"], goal: Float[Array, " s"], hold: int
) -> Float[Array, ""]:
    """-sum_t ||s_t - g|| along the path that is foretold."""
    return -jnp.sum(jnp.linalg.norm(foretell(dynamics, state, codes, hold) - goal, axis=1))


def weighted_mean(
    candidates: Float[Array, "n h z"], returns: Float[Array, " n"], gamma: float | Array
) -> Float[Array, "h z"]:
    """sum_k w_k z_k of the module docstring."""
    span = jnp.maximum(jnp.max(returns) - jnp.min(returns), 1e-6)
    weights = jax.nn.softmax(gamma * (returns - jnp.max(returns)) / span)
    return jnp.tensordot(weights, candidates, axes=1)

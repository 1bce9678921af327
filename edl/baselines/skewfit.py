"""Skew-Fit (Pong et al., 2020): go to states that are rare among those visited, until none is rarer than another.

A goal is a state, pi(a|s,g) is to reach it, and goals are drawn from what was visited, skewed towards the rare:

    p_skewed(s) ~ p(s) q(s)^alpha,  q a density fitted to p, what was visited,  alpha in [-1, 0)
    r(s, g)     = -||s - g||

(sampling importance resampling: visited states are drawn with weights q^alpha). For q = p they show that p_skewed has
more entropy than p, and that this ends at the uniform density if goals are reached. I(S;G) = H(G) - H(G|S) rises from
both ends: H(G) by the skew, -H(G|S) by the policy. SAC replays a step with its own goal, with one from p_skewed, or
with a state that its episode reached later (hindsight).

Departs from the paper: q is a kernel density estimate rather than a VAE, because states here are few numbers and no
images, and for the same reason the reward is the distance of states rather than of latent codes. Goals are visited
states drawn by p_skewed, as in the public code, and not samples of a model, some of which would lie behind walls. And q
is fitted to p, as in their analysis; in their algorithm it is fitted to p_skewed, q' ~ p q^alpha. That settles at q ~
p^(1/(1 - alpha)), for |alpha| < 1 only, and not with kernels, which end so abruptly that the rarest states outweigh all
others until q has collapsed onto one of them (a VAE never falls that fast).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.goals import goal_metrics, goal_skill, starts, with_goals
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.density import fit_kde
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.replay import Replay, add, blank_replay, read, sample
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class SkewFitConfig:
    """The shares of relabelled goals are those of the public code; alpha is -0.5 on its door, and -1 elsewhere."""

    num_skills: int = 10
    skew: float = -1.0
    """alpha."""
    hindsight: float = 0.2
    """Share of the steps that are replayed with a goal that their episode reached later."""
    resampled: float = 0.5
    """Share of the steps that are replayed with a goal from p_skewed."""
    memory: int = 50_000
    """Visited states, the last so many, that p_skewed is about."""
    fitted_to: int = 1024
    """Visited states that q is fitted to, anew in every iteration; resampled, they are the goals until the next."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, batch_size=256, gamma=0.98, tau=0.01, entropy_weight=0.1
    )


class Skewed(NamedTuple):
    """What was visited, and goals, a sample of p_skewed."""

    visited: Replay
    goals: Float[Array, "n s"]


def skewfit(env: Env, config: SkewFitConfig) -> Program[Any, SkillPolicy]:
    """Goals all over the states that can be reached, and a policy that reaches them."""
    program = sac(env, skewfit_objective(env, config), config.sac, codes=jnp.zeros((1, env.feature_size)))
    return with_goals(program, lambda state: state.goals, config.num_skills)


def skewfit_objective(env: Env, config: SkewFitConfig) -> Objective:
    """The skewed goals, the distance to them, and hindsight."""

    def init(key: Key) -> Skewed:
        goals = starts(key, env, config.fitted_to)
        return Skewed(blank_replay(goals, config.memory), goals)

    def choose(key: Key, state: Skewed) -> Skill:
        return goal_skill(state.goals[jax.random.randint(key, (), 0, config.fitted_to)])

    def relabel(key: Key, state: Skewed, step: Episode, later: Float[Array, " s"]) -> Skill:
        which_key, goal_key = jax.random.split(key)
        which, other = jax.random.uniform(which_key), choose(goal_key, state).code
        goal = jnp.where(which < config.hindsight + config.resampled, other, step.skill.code)
        return goal_skill(jnp.where(which < config.hindsight, later, goal))

    def update(key: Key, state: Skewed, episodes: Episode) -> tuple[Skewed, Metrics]:
        reached = episodes.features[:, 1:]
        visited = add(state.visited, reached.reshape(-1, reached.shape[-1]), episodes.valid.reshape(-1))
        row_key, fit_key, resample_key = jax.random.split(key, 3)
        states = read(visited, sample(row_key, visited, (config.fitted_to,)))
        log_density = jax.vmap(fit_kde(fit_key, states).log_prob)(states)
        goals = states[jax.random.categorical(resample_key, config.skew * log_density, shape=log_density.shape)]
        metrics = {"goal_entropy": skewed_entropy(log_density, config.skew), **goal_metrics(episodes)}
        return Skewed(visited, goals), metrics

    return Objective(init, choose, per_visit(distance_reward), update, relabel=relabel)


def distance_reward(state: Any, reached: Float[Array, " s"], skill: Skill) -> Scalar:
    """-||s - g||."""
    return -jnp.linalg.norm(reached - skill.code)


def skewed_entropy(log_density: Float[Array, " n"], skew: float | Scalar) -> Scalar:
    """H(p_skewed), estimated from log q of n samples of p; at alpha = -1, the log of the volume that was visited.

    log p_skewed = (1 + alpha) log q - log Z with Z = E_p[q^alpha], and E_{p_skewed} weighs the samples by q^alpha.
    """
    log_normaliser = jax.nn.logsumexp(skew * log_density) - jnp.log(log_density.shape[0])
    return log_normaliser - (1 + skew) * jnp.sum(jax.nn.softmax(skew * log_density) * log_density)

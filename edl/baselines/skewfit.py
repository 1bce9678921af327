"""Skew-Fit (Pong et al., 2020): set goals at rarely visited states, until all states are visited equally often.

A goal is a state, pi(a|s,g) should reach it, and goals are drawn from the visited states, skewed towards rare ones:

    p_skewed(s) ~ p(s) q(s)^alpha,  p the visited states, q a density fitted to p,  alpha in [-1, 0)
    r(s, g)     = -||s - g||

(sampling importance resampling: visited states are drawn with weights q^alpha). For q = p the paper shows that p_skewed
has more entropy than p, and that the iteration converges to the uniform density if goals are reached. Both terms of
I(S;G) = H(G) - H(G|S) grow: H(G) by the skew, -H(G|S) by the policy. SAC replays a step with its own goal, with a goal
from p_skewed, or with a state that its episode reached later (hindsight).

Departs from the paper:
- q is a kernel density estimate instead of a VAE, because states here are a few numbers and no images. For the same
  reason, the reward is the distance between states instead of latent codes.
- Goals are visited states drawn from p_skewed, as in the public code, and not samples of a model, because some of these
  would lie behind walls.
- q is fitted to p, as in the paper's analysis; in its algorithm, q is fitted to p_skewed, q' ~ p q^alpha. That
  converges to q ~ p^(1/(1 - alpha)) only for |alpha| < 1, and not with kernels: their density falls so steeply that the
  rarest states outweigh all others until q collapses onto one of them (the density of a VAE never falls that steeply).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.goal_skills import goal_skill, start_states, with_example_goals
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.density import fit_kde
from edl.objective import Objective, goal_metrics, per_visit
from edl.program import Program
from edl.rl.replay import Replay, add, empty_replay, read, sample
from edl.rl.sac import SACConfig, check_whole_episodes, sac
from edl.types import Key, Metrics, Scalar


@config
class SkewFitConfig:
    """The public code has alpha = -0.5 (door) or -1 (elsewhere).

    It replays 20 % of the steps with their own goal, 50 % with a goal from p_skewed and 30 % with a goal that their
    episode reached later; so do the defaults.
    """

    num_skills: int = 10
    """Number of example goals that are evaluated."""
    skew: float = -1.0
    """alpha, the exponent of the density."""
    hindsight: float = 0.3
    """Share of the steps that are replayed with a goal that their episode reached later."""
    resampled: float = 0.5
    """Share of the steps that are replayed with a goal from p_skewed. The other steps keep their own goal."""
    memory: int = 50_000
    """Number of most recently visited states from which p_skewed is estimated."""
    fitted_to: int = 1024
    """Number of visited states to which q is fitted in each iteration, and number of goals resampled from them."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, batch_size=256, gamma=0.98, tau=0.01, entropy_weight=0.1
    )
    """Settings of SAC."""


class SkewFitState(NamedTuple):
    """The visited states, and goals sampled from p_skewed."""

    visited: Replay
    goals: Float[Array, "n s"]


def skewfit(env: Env, config: SkewFitConfig) -> Program[Any, SkillPolicy]:
    """Train a policy to reach goals that spread over all reachable states."""
    check_whole_episodes(config.sac)
    program = sac(env, skewfit_objective(env, config), config.sac, codes=jnp.zeros((1, env.feature_size)))
    return with_example_goals(program, lambda state: state.goals, config.num_skills)


def skewfit_objective(env: Env, config: SkewFitConfig) -> Objective:
    """Goals from p_skewed, the distance to the goal as reward, and relabelled goals."""

    def init(key: Key) -> SkewFitState:
        goals = start_states(key, env, config.fitted_to)
        return SkewFitState(empty_replay(goals, config.memory), goals)

    def sample_goal(key: Key, state: SkewFitState) -> Skill:
        return goal_skill(state.goals[jax.random.randint(key, (), 0, config.fitted_to)])

    def relabel(key: Key, state: SkewFitState, step: Episode, later: Float[Array, " s"]) -> Skill:
        which_key, goal_key = jax.random.split(key)
        which, other = jax.random.uniform(which_key), sample_goal(goal_key, state).code
        goal = jnp.where(which < config.hindsight + config.resampled, other, step.skill.code)
        return goal_skill(jnp.where(which < config.hindsight, later, goal))

    def update(key: Key, state: SkewFitState, episodes: Episode) -> tuple[SkewFitState, Metrics]:
        reached = episodes.features[:, 1:]
        visited = add(state.visited, reached.reshape(-1, reached.shape[-1]), episodes.valid.reshape(-1))
        row_key, fit_key, resample_key = jax.random.split(key, 3)
        states = read(visited, sample(row_key, visited, (config.fitted_to,)))
        log_density = jax.vmap(fit_kde(fit_key, states).log_prob)(states)
        goals = states[jax.random.categorical(resample_key, config.skew * log_density, shape=log_density.shape)]
        metrics = {"goal_entropy": skewed_entropy(log_density, config.skew), **goal_metrics(episodes)}
        return SkewFitState(visited, goals), metrics

    return Objective(init, sample_goal, per_visit(distance_reward), update, relabel=relabel)


def distance_reward(state: Any, reached: Float[Array, " s"], skill: Skill) -> Scalar:
    """-||s - g||."""
    return -jnp.linalg.norm(reached - skill.code)


def skewed_entropy(log_density: Float[Array, " n"], skew: float | Scalar) -> Scalar:
    """H(p_skewed), estimated from log q of n samples of p. For alpha = -1 it is the log of the visited volume.

    log p_skewed = (1 + alpha) log q - log Z with Z = E_p[q^alpha], and E_{p_skewed} weighs the samples by q^alpha.
    """
    log_normaliser = jax.nn.logsumexp(skew * log_density) - jnp.log(log_density.shape[0])
    return log_normaliser - (1 + skew) * jnp.sum(jax.nn.softmax(skew * log_density) * log_density)

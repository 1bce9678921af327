"""HILP: foundation policies with Hilbert representations (Park, Kreiman and Levine, ICML 2024). Offline.

From recorded transitions alone, it learns a map phi whose distances are numbers of steps, by the value of reaching
goals, and then skills that go far in all directions z of the map, ||z|| = 1:

    V(s, g)      = -||phi(s) - phi(g)||
    L_phi        = E[ l_e( -1 + gamma 1{s' != g} V'(s', g) - V(s, g) ) ]                 l_e(x) = |e - 1{x < 0}| x^2
    r(s, s', z)  = (phi(s') - phi(s)) . z
    L_Q, L_U, L_pi: implicit Q-learning with that reward:
    L_Q          = (Q(s,z,a) - r - gamma U(s',z))^2,                L_U = l_k( Q'(s,z,a) - U(s,z) )
    L_pi         = -E[ min(100, exp(beta (Q' - U))) log pi(a|s,z) ]

g != s is a state that the episode reached later, or any state. V', Q' are targets that follow phi and Q slowly.

It is prompted by a goal, z = (phi(g) - phi(s_0)) / ||phi(g) - phi(s_0)||, where phi(s_0) is a mean over recorded first
states, or by a reward: `prompt_by_reward` is the least-squares solution of r_i = (phi(s'_i) - phi(s_i)) . z over
labelled transitions, scaled to unit length.

Departs from the authors' code:
- One network phi, one network U, two networks Q; theirs has two of phi, and l_e has the sign of the targets' error.
- A later state is drawn uniformly from the rest of the episode; in theirs, the next ones are more likely (by gamma).
- The policy is a squashed Gaussian whose deviation depends on (s,z); theirs is a Gaussian with one deviation.
- To reach a goal, their code computes z again in every step (`TowardGoal`); a skill of a run lasts for the episode, as
  for all methods, and goes on beyond the goal.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import NUM_RESETS, Experience, SkillPolicy, States
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.goal_skills import medoids
from edl.baselines.offline import OfflineState, Transitions, check_offline, draw_transitions, follow, offline_program
from edl.baselines.skill_priors import unit_vector
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.nets.distributions import Distribution, action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import fit_normaliser, fold_normaliser
from edl.nets.optim import gradient_step, new_trained
from edl.program import Program
from edl.types import Key, Metrics, Scalar

MAX_WEIGHT = 100.0


@config
class HILPConfig:
    """Expectiles and temperature are the authors'; networks and rates are those of our other methods."""

    num_skills: int = 10
    """Number of goals to evaluate: medoids of the samples of p(s)."""
    skill_size: int = 8
    """Dimensions of phi and z."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of all networks."""
    iterations: int = 100
    """Iterations."""
    gradient_steps: int = 100
    """Gradient steps per iteration."""
    batch_size: int = 256
    """Transitions per gradient step."""
    learning_rate: float = 1e-3
    """Learning rate of all networks."""
    gamma: float = 0.99
    """Discount factor, for phi and for the skills."""
    tau: float = 0.005
    """Fraction by which the targets move per gradient step."""
    expectile: float = 0.95
    """e, the expectile of the value of a goal."""
    skill_expectile: float = 0.9
    """k, the expectile of the value of a skill."""
    temperature: float = 10.0
    """beta, the inverse temperature of the advantages."""


class Networks(eqx.Module):
    """phi, U(s,z), both Q_i(s,z,a) with a leading axis, and the actor. All of them take normalised states."""

    phi: MLP
    value: MLP
    critics: MLP
    actor: MLP


def hilp(env: Env, states: States, config: HILPConfig) -> Program[OfflineState, SkillPolicy]:
    """Learn a map of temporal distance and skills in all its directions, from recorded transitions."""
    experience = check_offline(env, states, "hilp")
    normaliser, actions = fit_normaliser(states.samples), action_distribution(env.action_space, "tanh_gaussian")
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    size, action_size = config.skill_size, experience.actions.shape[-1]

    def init(key: Key) -> OfflineState:
        phi_key, value_key, critic_key, actor_key = jax.random.split(key, 4)
        inputs, hidden = env.feature_size + size, config.hidden
        networks = Networks(
            phi=mlp(phi_key, (env.feature_size, *hidden, size)),
            value=mlp(value_key, (inputs, *hidden, 1)),
            critics=jax.vmap(lambda key: mlp(key, (inputs + action_size, *hidden, 1)))(jax.random.split(critic_key)),
            actor=mlp(actor_key, (inputs, *hidden, actions.size), last_scale=1e-2),
        )
        return OfflineState(new_trained(optimiser, networks), networks)

    def improve(key: Key, state: OfflineState) -> tuple[OfflineState, Metrics]:
        draw_key, skill_key = jax.random.split(key)
        rows = draw_transitions(draw_key, experience, config.batch_size)
        scale = jax.vmap(normaliser)
        rows = rows._replace(before=scale(rows.before), after=scale(rows.after), goal=scale(rows.goal))
        codes = jax.vmap(unit_vector)(jax.random.normal(skill_key, (config.batch_size, size)))
        trained, metrics = gradient_step(
            optimiser, state.trained, hilp_loss, state.targets, rows, codes, actions, config
        )
        return OfflineState(trained, follow(state.targets, trained.params, config.tau)), metrics

    def finish(state: OfflineState) -> SkillPolicy:
        networks: Networks = state.trained.params
        phi = fold_normaliser(networks.phi, normaliser)
        rule = DirectionOfTarget(phi, mean_start(phi, experience), False)
        goals = medoids(states.samples, config.num_skills)
        codes = jax.vmap(rule)(goals)
        return SkillPolicy(networks.actor, normaliser, actions, codes, goals=goals, model=phi, pick=rule)

    return offline_program(init, improve, finish, config.iterations, config.gradient_steps)


def mean_start(phi: MLP, experience: Experience) -> Float[Array, " z"]:
    """The mean of phi(s_0) over the first `NUM_RESETS` recorded episodes; later ones may begin at restored states."""
    played = experience.lengths[:NUM_RESETS] > 0
    return jnp.average(jax.vmap(phi)(experience.paths[:NUM_RESETS, 0]), axis=0, weights=played.astype(jnp.float32))


class TowardGoal(eqx.Module):
    """A policy whose code is a goal: it turns towards it in every step, z_t = (phi(g) - phi(s_t)) / ||...||."""

    policy: SkillPolicy

    def act(self, key: Key, observation: Float[Array, " s"], goal: Float[Array, " s"]) -> Array:
        """Sample a ~ pi(a|s,z_t)."""
        phi: Any = self.policy.model
        return self.policy.act(key, observation, unit_vector(phi(goal) - phi(observation)))


def prompt_by_reward(
    policy: SkillPolicy, before: Float[Array, "n s"], after: Float[Array, "n s"], rewards: Float[Array, " n"]
) -> Float[Array, " z"]:
    """The skill for a reward: argmin_z sum_i (r_i - (phi(s'_i) - phi(s_i)) . z)^2, scaled to unit length."""
    if policy.model is None:
        raise ConfigError(
            "prompt_by_reward needs a policy with phi (got a policy without a model). Use the method hilp."
        )
    steps = jax.vmap(policy.model)(after) - jax.vmap(policy.model)(before)
    return unit_vector(jnp.linalg.lstsq(steps, rewards)[0])


def expectile_loss(errors: Float[Array, " n"], expectile: float | Scalar) -> Scalar:
    """E[l_e(x)]: positive errors have the weight e, negative ones 1 - e."""
    return jnp.mean(jnp.where(errors < 0, 1 - expectile, expectile) * errors**2)


def goal_values(phi: MLP, states: Float[Array, "n s"], goals: Float[Array, "n s"]) -> Float[Array, " n"]:
    """V(s, g) = -||phi(s) - phi(g)||."""
    return -jnp.sqrt(jnp.sum((jax.vmap(phi)(states) - jax.vmap(phi)(goals)) ** 2, axis=1) + 1e-6)


def map_errors(phi: MLP, target: MLP, rows: Transitions, gamma: float | Scalar) -> Float[Array, " n"]:
    """The errors of V: -1 + gamma 1{s' != g} V'(s', g) - V(s, g)."""
    following = gamma * goal_values(target, rows.after, rows.goal)
    backups = -1.0 + jnp.where(rows.reached, 0.0, following)
    return jax.lax.stop_gradient(backups) - goal_values(phi, rows.before, rows.goal)


def hilp_loss(
    networks: Networks,
    targets: Networks,
    rows: Transitions,
    codes: Float[Array, "n z"],
    actions: Distribution,
    config: Any,
) -> tuple[Scalar, Metrics]:
    """All losses of the module docstring. No parameter has a gradient from two of them."""
    phi_loss = expectile_loss(map_errors(networks.phi, targets.phi, rows, config.gamma), config.expectile)
    steps = jax.lax.stop_gradient(jax.vmap(networks.phi)(rows.after) - jax.vmap(networks.phi)(rows.before))
    rewards = jnp.sum(steps * codes, axis=1)

    inputs, next_inputs = (jnp.concatenate([x, codes], axis=1) for x in (rows.before, rows.after))
    pairs = jnp.concatenate([inputs, rows.action], axis=1)

    def qs_of(critics: MLP) -> Float[Array, "2 n"]:
        return jax.vmap(lambda critic: jax.vmap(critic)(pairs)[:, 0])(critics)

    backups = rewards + config.gamma * jax.lax.stop_gradient(jax.vmap(networks.value)(next_inputs)[:, 0])
    critic_loss = jnp.mean(jnp.sum((qs_of(networks.critics) - backups) ** 2, axis=0))
    best, values = jnp.min(qs_of(targets.critics), axis=0), jax.vmap(networks.value)(inputs)[:, 0]
    value_loss = expectile_loss(jax.lax.stop_gradient(best) - values, config.skill_expectile)
    advantages = jax.lax.stop_gradient(best - values)
    weights = jnp.minimum(jnp.exp(config.temperature * advantages), MAX_WEIGHT)
    log_probs = jax.vmap(actions.log_prob)(jax.vmap(networks.actor)(inputs), rows.action)
    loss = phi_loss + critic_loss + value_loss - jnp.mean(weights * log_probs)
    metrics = {"map_loss": phi_loss, "critic_loss": critic_loss, "advantage": jnp.mean(advantages)}
    return loss, {**metrics, "step_length": jnp.mean(jnp.linalg.norm(steps, axis=1))}

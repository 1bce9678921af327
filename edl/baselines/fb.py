"""FB: forward-backward representations (Touati and Ollivier, NeurIPS 2021). Offline.

The successor measure M of the policy pi_z, i.e. how often it visits s' (discounted) after the action a in s, has finite
rank: M(s,a,ds') = F(s,a,z)^T B(s') rho(ds'), where rho is the distribution of the recorded states. For any reward,
pi_z(s) = argmax_a F(s,a,z)^T z is then optimal for z = E_rho[r(s) B(s)]. Over pairs of independent transitions i, j:

    L_FB     = 1/2 E_{i != j}[ (F_i^T B_j - gamma min_k F'_{k,i}^T B'_j)^2 ] - E_i[ F_i^T B_i ]       for both F = F_k,
               F'_{k,i} = F'_k(s'_i, pi_z(s'_i), z)
    L_ortho  = E_{i != j}[ (B_i^T B_j)^2 ] - 2 E_i[ B_i^T B_i ]                   B has a covariance near the identity
    L_pi     = -E[ min_k F_k(s,a,z)^T z / d - alpha log pi(a|s,z) ],                     a ~ pi(.|s,z)

B_j = B(s'_j), F' and B' are targets, and ||B|| = ||z|| = sqrt(d). Half of the z are B of a recorded state, the others
are uniform on the sphere. It is prompted by a goal, z = B(g), or by a reward, z = E_rho[r(s) B(s)]
(`prompt_by_reward`), scaled to the length sqrt(d).

Departs from the code of HILP's authors, whose FB we follow:
- The policy is a squashed Gaussian with a small entropy bonus, trained as in SAC; theirs is a mean with fixed noise.
- No loss for Q = F^T z of its own (``q_loss``, off by default there as well).
- F and pi are plain networks of their inputs; theirs embed (s,a) and (s,z) separately first.
- Recorded terminations are not known (`edl.baselines.offline`); theirs ends M there.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import PickRule, SkillPolicy, States
from edl.baselines.goal_skills import medoids
from edl.baselines.offline import OfflineState, Transitions, check_offline, draw_transitions, follow, offline_program
from edl.baselines.skill_priors import unit_vector
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.nets.distributions import TanhGaussian, action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import fit_normaliser, fold_normaliser
from edl.nets.optim import gradient_step, new_trained
from edl.program import Program
from edl.types import Key, Metrics, Scalar


@config
class FBConfig:
    """The weight of the orthonormality is that of the authors."""

    num_skills: int = 10
    """Number of goals to evaluate: medoids of the samples of p(s)."""
    skill_size: int = 16
    """d, the rank of M and the dimensions of z."""
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
    gamma: float = 0.95
    """Discount factor."""
    tau: float = 0.01
    """Fraction by which the targets move per gradient step."""
    orthonormality: float = 1.0
    """Weight of L_ortho."""
    entropy_weight: float = 0.05
    """alpha, the weight of the policy's entropy, in units of ||z||^2."""


class Networks(eqx.Module):
    """Both F_k(s,a,z) with a leading axis, B(s) and the actor. All of them take normalised states."""

    forward: MLP
    backward: MLP
    actor: MLP


class Backward(PickRule):
    """z = B(x)."""

    backward: MLP
    rule: ClassVar[str] = "z = B(x)"

    def __call__(self, target: Float[Array, " s"]) -> Float[Array, " z"]:
        return on_sphere(self.backward(target))


def fb(env: Env, states: States, config: FBConfig) -> Program[OfflineState, SkillPolicy]:
    """Learn the successor measures of all policies pi_z, from recorded transitions."""
    experience = check_offline(env, states, "fb")
    normaliser = fit_normaliser(states.samples)
    actions: Any = action_distribution(env.action_space, "tanh_gaussian")
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    size, action_size = config.skill_size, experience.actions.shape[-1]

    def init(key: Key) -> OfflineState:
        forward_key, backward_key, actor_key = jax.random.split(key, 3)
        inputs, hidden = env.feature_size + size, config.hidden
        networks = Networks(
            forward=jax.vmap(lambda key: mlp(key, (inputs + action_size, *hidden, size)))(
                jax.random.split(forward_key)
            ),
            backward=mlp(backward_key, (env.feature_size, *hidden, size)),
            actor=mlp(actor_key, (inputs, *hidden, actions.size), last_scale=1e-2),
        )
        return OfflineState(new_trained(optimiser, networks), networks)

    def improve(key: Key, state: OfflineState) -> tuple[OfflineState, Metrics]:
        draw_key, skill_key, noise_key = jax.random.split(key, 3)
        rows = draw_transitions(draw_key, experience, config.batch_size)
        scale = jax.vmap(normaliser)
        rows = rows._replace(before=scale(rows.before), after=scale(rows.after), other=scale(rows.other))
        codes = draw_codes(skill_key, state.trained.params.backward, rows.other)
        noise = jax.random.normal(noise_key, (2, config.batch_size, action_size))
        trained, metrics = gradient_step(
            optimiser, state.trained, fb_loss, state.targets, rows, codes, noise, actions, config
        )
        return OfflineState(trained, follow(state.targets, trained.params, config.tau)), metrics

    def finish(state: OfflineState) -> SkillPolicy:
        networks: Networks = state.trained.params
        backward = fold_normaliser(networks.backward, normaliser)
        rule, goals = Backward(backward), medoids(states.samples, config.num_skills)
        codes = jax.vmap(rule)(goals)
        return SkillPolicy(networks.actor, normaliser, actions, codes, goals=goals, model=backward, pick=rule)

    return offline_program(init, improve, finish, config.iterations, config.gradient_steps)


def on_sphere(vector: Float[Array, " z"]) -> Float[Array, " z"]:
    """The vector scaled to the length sqrt(d)."""
    return jnp.sqrt(vector.shape[0]) * unit_vector(vector)


def prompt_by_reward(
    policy: SkillPolicy, states: Float[Array, "n s"], rewards: Float[Array, " n"]
) -> Float[Array, " z"]:
    """The skill for a reward: z = E_rho[r(s) B(s)] over labelled states, scaled to the length sqrt(d).

    The states must be drawn from rho, the distribution of the states in which recorded steps end. With states from
    another distribution p, z is that of the reward r p / rho. The samples of p(s) of an explorer are not from rho.
    """
    backward = policy.model
    if backward is None:
        raise ConfigError("prompt_by_reward needs a policy with B (got a policy without a model). Use the method fb.")
    embedded = jax.vmap(lambda state: on_sphere(backward(state)))(states)
    return on_sphere(jnp.mean(rewards[:, None] * embedded, axis=0))


def draw_codes(key: Key, backward: MLP, states: Float[Array, "n s"]) -> Float[Array, "n z"]:
    """z: B of a recorded state, or uniform on the sphere, with equal probability."""
    kind_key, noise_key = jax.random.split(key)
    goals = jax.lax.stop_gradient(jax.vmap(backward)(states))
    uniform = jax.random.normal(noise_key, goals.shape)
    chosen = jnp.where(jax.random.bernoulli(kind_key, shape=(goals.shape[0], 1)), goals, uniform)
    return jax.vmap(on_sphere)(chosen)


def fb_loss(
    networks: Networks,
    targets: Networks,
    rows: Transitions,
    codes: Float[Array, "n z"],
    noise: Float[Array, "2 n a"],
    actions: TanhGaussian,
    config: Any,
) -> tuple[Scalar, Metrics]:
    """All losses of the module docstring. No parameter has a gradient from two terms except B, which has L_ortho."""
    backward = jax.vmap(lambda state: on_sphere(networks.backward(state)))(rows.after)
    old_backward = jax.vmap(lambda state: on_sphere(targets.backward(state)))(rows.after)
    next_actions, _ = jax.vmap(actions.reparametrise)(noise[0], jax.vmap(networks.actor)(joined(rows.after, codes)))
    following = forward_of(targets.forward, rows.after, codes, next_actions) @ old_backward.T
    backups = jax.lax.stop_gradient(config.gamma * jnp.min(following, axis=0))
    measures = forward_of(networks.forward, rows.before, codes, rows.action) @ backward.T
    measure_loss = sum(measure_error(each, backups) for each in measures)
    ortho = off_diagonal_mean((backward @ backward.T) ** 2) - 2 * jnp.mean(jnp.sum(backward**2, axis=1))

    params = jax.vmap(networks.actor)(joined(rows.before, codes))
    drawn, log_probs = jax.vmap(actions.reparametrise)(noise[1], params)
    frozen = jax.lax.stop_gradient(networks.forward)
    values = jnp.min(jnp.sum(forward_of(frozen, rows.before, codes, drawn) * codes, axis=-1), axis=0)
    unit = codes.shape[1]
    actor_loss = -jnp.mean(values / unit - config.entropy_weight * log_probs)
    metrics = {"measure_loss": jnp.asarray(measure_loss), "orthonormality": ortho, "value": jnp.mean(values)}
    return measure_loss + config.orthonormality * ortho + actor_loss, metrics


def joined(*parts: Float[Array, "n _"]) -> Float[Array, "n i"]:
    return jnp.concatenate(parts, axis=1)


def forward_of(
    forward: MLP, states: Float[Array, "n s"], codes: Float[Array, "n z"], actions: Float[Array, "n a"]
) -> Float[Array, "2 n z"]:
    """F_k(s,a,z) of both networks."""
    inputs = joined(states, codes, actions)
    return jax.vmap(lambda net: jax.vmap(net)(inputs))(forward)


def off_diagonal_mean(x: Float[Array, "n n"]) -> Scalar:
    size = x.shape[0]
    return (jnp.sum(x) - jnp.trace(x)) / (size * (size - 1))


def measure_error(measure: Float[Array, "n n"], backups: Float[Array, "n n"]) -> Scalar:
    """1/2 E_{i != j}[(M_ij - gamma M'_ij)^2] - E_i[M_ii]."""
    return 0.5 * off_diagonal_mean((measure - backups) ** 2) - jnp.mean(jnp.diagonal(measure))

"""The family of METRA: r(s, s', z) = (phi(s') - phi(s)) . z, for a map phi of the states and a direction z.

A skill goes as far as it can in its own direction of the map. Without a bound on phi, the reward of any policy could be
made as large as one likes. The methods of the family differ in this bound:

    LSD          ||phi(s) - phi(s')|| <= ||s - s'||            spectral normalisation       `edl.baselines.lsd`
    CSD          ||phi(s) - phi(s')||^2 <= d(s, s')            a learned distance d         `edl.baselines.csd`
    METRA        ||phi(s) - phi(s')||^2 <= 1                   one step, temporal distance  `edl.baselines.metra`
    CSF          log-sum-exp of (phi(s') - phi(s)) . z'        InfoNCE, no constraint       `edl.baselines.csf`

A method is the parameters of its map, and a loss for them (`DirectionMethod`). This file has everything else: common
settings, the prior p(z), the reward, the learners, and the rule that picks a skill. The multiplier of a constraint is
in `edl.baselines.constraints`.

Continuous skills are z ~ uniform over the unit sphere. Discrete skills are one-hot for the policy, and directions with
zero mean for phi: z = (one-hot - 1/K) K / (K - 1).

To reach x, the skill in the direction of phi(x) - phi(s_0) is played: the unit vector itself or, if skills are
discrete, the one with the largest component. A skill lasts for the episode, and phi(s_0) is the mean over start states.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.goal_skills import start_observations
from edl.baselines.model_fitting import (
    Fitted,
    ModelInput,
    Moves,
    input_size,
    moves_of,
    on_raw_inputs,
    on_target_features,
    sac_with_model,
    weighted_mean,
    with_model_inputs,
    with_model_steps,
)
from edl.baselines.pick_rules import NUM_STARTS
from edl.baselines.skill_priors import example_directions, sample_direction, sample_one_hot, unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.nets.optim import new_trained, sgd
from edl.objective import LinearReward, Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState
from edl.types import Key, Metrics, Scalar

SkillKind = Literal["discrete", "continuous"]
"""One-hot skills, or unit vectors."""


@config
class DirectionConfig:
    """The settings that all methods of the family with SAC have. Defaults are those of LSD and CSD."""

    num_skills: int = 10
    """Number of skills, or of example codes to evaluate if skills are continuous."""
    skills: SkillKind = "discrete"
    """One-hot skills, or unit vectors."""
    skill_size: int = 2
    """Dimensions of a continuous skill."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi, and of q(s'|s) in CSD."""
    learning_rate: float = 1e-3
    """Learning rate of phi, and of what a method fits with it: log lambda or q(s'|s)."""
    minibatches: int = 50
    """Gradient steps of phi per iteration, over the steps that SAC samples from its replay buffer."""
    match_policy: bool = False
    """Instead, phi makes as many gradient steps as the policy, with batches of the same size, as in METRA's code."""
    sees: ModelInput = "features"
    """The input of phi: the features that skills are about, or the whole observation, as in METRA's code."""
    sac: SACConfig = SACConfig(
        iterations=500,
        rollouts=20,
        update_every=20,
        objective_batch_size=6400,
        learn_entropy_weight=True,
        target_entropy_share=0.3,
        entropy_weight=0.01,
    )
    """Settings of SAC."""


class DirectionMethod(NamedTuple):
    """What distinguishes the methods of the family.

    ``init``        the parameters that it learns, for a map with these numbers of inputs and dimensions.
    ``phi``         the map, from the parameters.
    ``loss``        the loss of the parameters on some moves with their directions z, and metrics.
    ``after_step``  changes the parameters after each gradient step.
    """

    init: Callable[[Key, int, int], Any]
    phi: Callable[[Any], MLP]
    loss: Callable[[Any, Moves, Float[Array, "n z"]], tuple[Scalar, Metrics]]
    after_step: Callable[[Any], Any] | None = None


class DirectionOfTarget(PickRule):
    """The skill in the direction of phi(x) - phi(s_0). ``origin`` is the mean of phi(s_0)."""

    phi: MLP
    origin: Float[Array, " z"]
    discrete: bool = eqx.field(static=True)
    rule: ClassVar[str] = "the direction phi(x) - phi(s_0)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""] | Float[Array, " z"]:
        direction = self.phi(target) - self.origin
        return jnp.argmax(direction) if self.discrete else unit_vector(direction)


def example_codes(config: Any) -> Float[Array, "k z"]:
    """The codes of the skills to evaluate. ``config`` is that of a method of the family."""
    if config.skills == "discrete":
        return jnp.eye(config.num_skills)
    return example_directions(config.num_skills, config.skill_size)


def train_directions(
    env: Env, config: DirectionConfig, method: DirectionMethod, linear: bool = False
) -> Program[SACState, SkillPolicy]:
    """Train with SAC. ``policy.model`` is phi, of raw inputs. ``linear``: the critics learn successor features."""
    learner, steps = with_model_steps(env, config.sac, config.minibatches, config.match_policy)
    objective = direction_objective(env, config, method, config.sees, steps)
    if linear:
        objective = objective._replace(linear=LinearReward(cumulants_of(config, method, config.sees), no_other_codes))
    program = sac_with_model(env, objective, learner, config.sees, example_codes(config))
    return with_map(env, program, config, method, config.sees)


def direction_objective(
    env: Env, config: Any, method: DirectionMethod, sees: ModelInput = "features", steps: int = 1
) -> Objective:
    """The reward of the family, and ``steps`` gradient steps of the map per iteration."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    discrete, size = config.skills == "discrete", example_codes(config).shape[-1]

    def init(key: Key) -> Fitted:
        trained = new_trained(optimiser, method.init(key, input_size(env, sees), size))
        return Fitted(trained, identity_normaliser(input_size(env, sees)))

    def sample(key: Key, state: Fitted) -> Skill:
        return sample_one_hot(key, size) if discrete else sample_direction(key, size)

    def move_reward(state: Fitted, before: Float[Array, " i"], after: Float[Array, " i"], skill: Skill) -> Scalar:
        phi = method.phi(state.model.params)
        return progress(phi(after) - phi(before), direction_of(skill.code, discrete))

    def reward(state: Fitted, episode: Episode) -> Float[Array, " t"]:
        return per_move(move_reward)(state, with_model_inputs(episode, sees, state.normaliser))

    def loss(params: Any, rows: Moves) -> tuple[Scalar, Metrics]:
        return method.loss(params, rows, jax.vmap(lambda code: direction_of(code, discrete))(rows.code))

    def update(key: Key, state: Fitted, episodes: Episode) -> tuple[Fitted, Metrics]:
        rows = moves_of(with_model_inputs(episodes, sees, state.normaliser))
        model, metrics = sgd(key, optimiser, state.model, loss, rows, 1, steps, after_step=method.after_step)
        return state._replace(model=model), metrics

    return Objective(init, sample, reward, update)


def cumulants_of(
    config: Any, method: DirectionMethod, sees: ModelInput = "features"
) -> Callable[[Fitted, Episode], Float[Array, "t z"]]:
    """phi(s') - phi(s) of each step, such that its product with the code is the reward."""

    def cumulants(state: Fitted, episode: Episode) -> Float[Array, "t z"]:
        seen = with_model_inputs(episode, sees, state.normaliser)
        steps = jnp.diff(jax.vmap(method.phi(state.model.params))(seen.features), axis=0)
        # The matrix that turns one-hot codes into directions is symmetric: it may be applied to phi(s') - phi(s).
        return jax.vmap(lambda step: direction_of(step, config.skills == "discrete"))(steps)

    return cumulants


def with_map(
    env: Env, program: Program, config: Any, method: DirectionMethod, sees: ModelInput = "features"
) -> Program[Any, SkillPolicy]:
    """The same program, whose policy has phi as its ``model`` and `DirectionOfTarget` as its rule."""

    def finish(state: Any) -> SkillPolicy:
        phi = on_raw_inputs(state.objective, method.phi(state.objective.model.params), sees)
        starts = start_observations(jax.random.key(0), env, NUM_STARTS)
        origin = jnp.mean(jax.vmap(phi)(starts if sees == "observation" else jax.vmap(env.features)(starts)), axis=0)
        discrete = config.skills == "discrete"
        rule = DirectionOfTarget(on_target_features(phi, env, sees, jnp.mean(starts, axis=0)), origin, discrete)
        return dataclasses.replace(program.finish(state), model=phi, pick=rule)

    return dataclasses.replace(program, finish=finish)


def direction_of(code: Float[Array, " z"], discrete: bool) -> Float[Array, " z"]:
    """z as an input of phi: a continuous code unchanged, a one-hot code with zero mean and a 1 at its own index."""
    size = code.shape[0]
    return (code - jnp.mean(code)) * size / max(size - 1, 1) if discrete else code


def no_other_codes(codes: Float[Array, "n d"]) -> Float[Array, "g n d"]:
    """No generalised policy improvement: the policy of z is compared with no other."""
    return jnp.zeros((0, *codes.shape))


def progress(step: Float[Array, " z"], direction: Float[Array, " z"]) -> Scalar:
    """(phi(s') - phi(s)) . z."""
    return jnp.dot(step, direction)


def map_steps(phi: MLP, rows: Moves) -> Float[Array, "n z"]:
    """phi(s') - phi(s) of every move."""
    return jax.vmap(phi)(rows.after) - jax.vmap(phi)(rows.before)


def progress_loss(phi: MLP, rows: Moves, directions: Float[Array, "n z"]) -> tuple[Scalar, Metrics]:
    """-E[(phi(s') - phi(s)) . z], for a map whose architecture bounds it."""
    steps = map_steps(phi, rows)
    mean_progress = weighted_mean(rows.weight, jax.vmap(progress)(steps, directions))
    return -mean_progress, {
        "progress": mean_progress,
        "squared_step": weighted_mean(rows.weight, jnp.sum(steps**2, axis=1)),
    }

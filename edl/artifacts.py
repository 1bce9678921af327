"""The artifacts that the stages hand over: `States` -> `SkillModel` -> `SkillPolicy`.

Each can be saved, loaded, and built by hand: a user's dataset instead of stage 1, a user's goals instead of stage 2.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.config import check
from edl.envs.base import Discrete, Env
from edl.envs.clock import with_time_left
from edl.envs.rollout import Skill
from edl.nets.distributions import Distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, fit_normaliser
from edl.nets.quantiser import nearest
from edl.types import Key, Scalar

NUM_RESETS = 16
"""Number of episodes that an explorer plays from a reset before it may restore states."""


class Experience(eqx.Module):
    """The episodes that an explorer played, in the order of play; all of them, or a uniform sample (``sampled``).

    ``paths`` are the features of the states of ``e`` episodes; only the first ``lengths[i] + 1`` entries of row i are
    real. The arrays have their full size from the start: episodes that are not played yet have length 0. The first
    `NUM_RESETS` episodes of an explorer begin at a reset.
    """

    paths: Float[Array, "*seeds e t1 s"]
    actions: Array
    lengths: Int[Array, "*seeds e"]
    sampled: bool = eqx.field(static=True, default=False)

    @property
    def valid(self) -> Bool[Array, "*seeds e t"]:
        """Which steps were made. The others are padding after the end of an episode."""
        return jnp.arange(self.paths.shape[-2] - 1) < self.lengths[..., None]


class States(eqx.Module):
    """Stage 1: samples of p(s), and the experience that they were drawn from (None for an oracle or a dataset).

    ``policy`` is a policy that the explorer learned and whose codes are goals (`beyond`), from which stage 3 can start.
    """

    samples: Float[Array, "*seeds n s"]
    experience: Experience | None = None
    policy: "SkillPolicy | None" = None

    @classmethod
    def from_samples(cls, samples: Any) -> "States":
        """States from a list or an array with one row per state."""
        return cls(_rows(samples, "samples"))


def _rows(values: Any, name: str) -> Float[Array, "n s"]:
    """A list or an array of states as a float array with one row per state."""
    array = np.asarray(values)
    right = array.ndim == 2 and array.size > 0 and array.dtype.kind in "fiub"
    check(
        right,
        f"{name} must be numbers with one row per state and shape (n, s) (got shape {array.shape} of {array.dtype}).",
    )
    bad = ~np.isfinite(array).all(axis=1)
    check(not bad.any(), f"{name} must be finite (got {array[bad.argmax()]} in row {bad.argmax()}). Remove that row.")
    return jnp.asarray(array, jnp.float32)


class SkillModel(eqx.Module):
    """Stage 2: codes z, the encoder q(z|s), the decoder q(s|z), and goals g_z = argmax_s q(s|z).

    ``encoder`` and ``decoder`` work on normalised states. With a discrete prior, q(z|s) is one-hot on the nearest code
    and p(z) is uniform over the rows of ``codes``. With a continuous prior (``continuous``), p(z) = N(0, I) and the
    rows are a fixed set of codes for plots and evaluation. ``decoded`` are the decoder's means of the codes. ``goals``
    are the same, unless they were moved to the nearest explored state or away from a wall (`edl.learn.placement`).
    ``usage`` is the share of p(s) that q(z|s) assigns to each code.
    """

    codes: Float[Array, "k z"]
    goals: Float[Array, "k s"]
    decoded: Float[Array, "k s"]
    usage: Float[Array, " k"]
    encoder: MLP | None
    decoder: MLP | None
    normaliser: Normaliser
    continuous: bool = eqx.field(static=True, default=False)

    @classmethod
    def from_goals(cls, goals: Any, states: Any = None) -> "SkillModel":
        """One skill per goal: a list or an array with one row per goal, in the features that skills are about.

        A code is its goal, normalised by the moments of ``states`` (an array, or `States`) or else of the goals. q(z|s)
        is one-hot on the goal nearest to s in these units.
        """
        rows = _rows(goals, "goals")
        samples = states.samples if isinstance(states, States) else rows if states is None else _rows(states, "states")
        check(
            samples.shape[-1] == rows.shape[-1],
            f"goals and states must have the same number of columns (got {rows.shape[-1]} and {samples.shape[-1]}).",
        )
        normaliser = fit_normaliser(samples)
        codes, usage = jax.vmap(normaliser)(rows), jnp.full(len(rows), 1.0 / len(rows))
        return cls(codes, rows, rows, usage, None, None, normaliser)

    @property
    def num_skills(self) -> int:
        """Number of rows of the codebook."""
        return self.codes.shape[-2]

    def encode(self, state: Float[Array, " s"]) -> Float[Array, " z"]:
        """z_e(s), the output of the encoder before quantisation."""
        x = self.normaliser(state)
        return x if self.encoder is None else self.encoder(x)[: self.codes.shape[-1]]

    def decode(self, code: Float[Array, " z"]) -> Float[Array, " s"]:
        """argmax_s q(s|z). The code need not be in the codebook."""
        x = code if self.decoder is None else self.decoder(code)
        return self.normaliser.inverse(x)

    def assign(self, state: Float[Array, " s"]) -> Int[Array, ""]:
        """argmax_z q(z|s): the index of the code nearest to z_e(s)."""
        return nearest(self.encode(state), self.codes)

    def log_likelihood(self, state: Float[Array, " s"], code: Float[Array, " z"]) -> Scalar:
        """log q(s|z) up to a constant: a Gaussian with unit variance in normalised space."""
        mean = code if self.decoder is None else self.decoder(code)
        return -0.5 * jnp.sum((self.normaliser(state) - mean) ** 2)

    def sample(self, key: Key) -> Skill:
        """z ~ p(z)."""
        if self.continuous:
            code = jax.random.normal(key, self.codes.shape[-1:])
            return Skill(code=code, index=jnp.int32(-1), goal=self.decode(code))
        index = jax.random.randint(key, (), 0, self.num_skills)
        return self.skill(index)

    def skill(self, index: Int[Array, ""]) -> Skill:
        """The skill in row ``index`` of the codebook."""
        return Skill(code=self.codes[index], index=jnp.asarray(index, jnp.int32), goal=self.goals[index])


class PickRule(eqx.Module):
    """How a run picks a skill for a state that a user wants to reach, without trying the skills.

    Its arrays are stored with the policy. `edl.evaluate.picking` measures how far from the state the skill ends.
    """

    rule: ClassVar[str]
    """The rule in words, where x is the state. It is ``picked_by`` in metrics.json."""

    @abc.abstractmethod
    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""] | Float[Array, " z"]:
        """The number of a skill, a row of ``SkillPolicy.codes``, or any code that the policy accepts."""


class PosteriorPick(PickRule):
    """The rule of EDL: q(z|x). With a continuous prior it is a code, the mean of q(z|x)."""

    skills: SkillModel
    rule: ClassVar[str] = "q(z|x)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""] | Float[Array, " z"]:
        return self.skills.encode(target) if self.skills.continuous else self.skills.assign(target)


class TargetAsGoal(PickRule):
    """g = x: a goal-conditioned policy gets the target as its goal."""

    rule: ClassVar[str] = "the goal g = x"

    def __call__(self, target: Float[Array, " s"]) -> Float[Array, " s"]:
        return target


Integration = Callable[[Float[Array, " o"], Float[Array, " z"]], Float[Array, " i"]]
"""Combines an observation and a code into the input of a network."""


def concatenate(observation: Float[Array, " o"], code: Float[Array, " z"]) -> Float[Array, " i"]:
    """[s, z], the input of nearly every method."""
    return jnp.concatenate([observation, code])


class SkillPolicy(eqx.Module):
    """Stage 3: pi(a|s,z). ``codes`` are the skills it was trained on; other codes, e.g. interpolated ones, also work.

    ``goals`` are the goals of the codes if a method without stages has goals (with stages, see `SkillModel.goals`).
    ``model`` is an optional model that the method learned: VISR stores its features, from which it infers tasks.
    ``pick`` is the rule by which a method without stages picks a skill (with stages: `PosteriorPick`), if it has one.
    ``horizon`` is the number of steps of a skill if the policy sees the time left (`edl.envs.clock`), or else 0.
    """

    actor: MLP
    normaliser: Normaliser
    distribution: Distribution
    codes: Float[Array, "k z"]
    goals: Float[Array, "k s"] | None = None
    model: PyTree | None = None
    pick: PickRule | None = None
    integrate: Integration = eqx.field(static=True, default=concatenate)
    horizon: int = eqx.field(static=True, default=0)

    def __call__(self, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Float[Array, " p"]:
        """The parameters of the action distribution."""
        return self.actor(self.integrate(self.normaliser(observation), code))

    @property
    def act(self) -> Callable[[Key, Any, Any], Array]:
        """``act(key, observation, skill)`` samples a ~ pi(a|s,z).

        ``skill`` is the number of a skill or any code. Lists and arrays are accepted, and batches: one observation with
        many skills, many with one, or as many as there are skills. ``jax.jit(policy.act)`` works, because this is a
        plain function: a bound method of a module with arrays could not be hashed.
        """
        return functools.partial(_act, self)

    @property
    def mode(self) -> Callable[[Any, Any], Array]:
        """``mode(observation, skill)``: the mean of a continuous pi(a|s,z), the mode of a discrete one.

        It takes what `act` takes, without a key.
        """
        return functools.partial(_mode, self)

    def at_time(self, observation: Any, time: int) -> Float[Array, "*n o"]:
        """What the policy sees ``time`` steps after the start of a skill; ``observation`` is that of the user's env.

        The skill of a policy that sees no time left can start at any step: the observation is unchanged.
        """
        seen = jnp.asarray(observation, jnp.float32)
        if not self.horizon:
            return seen
        left = jnp.full(seen.shape[:-1], max(self.horizon - time, 0))
        return with_time_left(seen, left, self.horizon)

    def code_of(self, skill: Any) -> Float[Array, "*n z"]:
        """The codes of skills that are given by number or by code."""
        given = jnp.asarray(skill)
        return self.codes[given] if jnp.issubdtype(given.dtype, jnp.integer) else given.astype(jnp.float32)


def goals_of(policy: SkillPolicy, skills: SkillModel | None) -> Any:
    """The goals of a run's skills (or their shape); None if its method has none. ``skills`` are None without stages."""
    return policy.goals if skills is None else skills.goals


def pick_rule_of(policy: SkillPolicy, skills: SkillModel | None) -> PickRule | None:
    """The rule by which a run picks a skill; None if its method has none. ``skills`` are None without stages."""
    return policy.pick if skills is None else PosteriorPick(skills)


def _act(policy: SkillPolicy, key: Key, observation: Any, skill: Any) -> Array:
    params = _params(policy, observation, skill)
    if params.ndim == 1:
        return policy.distribution.sample(key, params)
    flat = params.reshape(-1, params.shape[-1])
    actions = jax.vmap(policy.distribution.sample)(jax.random.split(key, len(flat)), flat)
    return actions.reshape(*params.shape[:-1], *actions.shape[1:])


def _mode(policy: SkillPolicy, observation: Any, skill: Any) -> Array:
    params = _params(policy, observation, skill)
    mean = policy.distribution.mean
    for _ in range(params.ndim - 1):
        mean = jax.vmap(mean)
    return mean(params)


def _params(policy: SkillPolicy, observation: Any, skill: Any) -> Float[Array, "*n p"]:
    """The parameters of the action distributions, for observations and codes with any leading axes."""
    seen, code = jnp.asarray(observation, jnp.float32), policy.code_of(skill)
    if seen.ndim == code.ndim == 1:  # inside of every training loop
        return policy(seen, code)
    shape = jnp.broadcast_shapes(seen.shape[:-1], code.shape[:-1])
    rows = [jnp.broadcast_to(x, (*shape, x.shape[-1])).reshape(-1, x.shape[-1]) for x in (seen, code)]
    params = jax.vmap(policy)(*rows)
    return params.reshape(*shape, params.shape[-1])


def empty_experience(env: Env, episodes: int) -> Experience:
    """An `Experience` of ``episodes`` episodes of length 0."""
    space = env.action_space
    shape, dtype = ((), jnp.int32) if isinstance(space, Discrete) else ((space.size,), jnp.float32)
    return Experience(
        paths=jnp.zeros((episodes, env.horizon + 1, env.feature_size)),
        actions=jnp.zeros((episodes, env.horizon, *shape), dtype),
        lengths=jnp.zeros(episodes, jnp.int32),
    )

"""A point on a line or in the plane that moves by its action: a robot whose physics compile at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from edl.artifacts import SkillPolicy
from edl.envs.base import Box, Discrete, Env, EnvWrapper, Step
from edl.nets.distributions import Distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser


class PointState(eqx.Module):
    position: Array
    time: Array


class Plane(Env):
    """x_{t+1} = x_t + a_t, from the origin. The observation has one more number, the time, which is no feature."""

    feature_size: int = eqx.field(static=True, default=2)
    horizon: int = eqx.field(static=True, default=8)
    observation_size: int = eqx.field(static=True, default=3)

    @property
    def features_are_place(self) -> bool:
        return True

    @property
    def action_space(self) -> Box:
        return Box(-jnp.ones(self.feature_size), jnp.ones(self.feature_size))

    def reset(self, key):
        return PointState(jnp.full(self.feature_size, 0.5), jnp.int32(0))

    def step(self, key, state, action) -> Step:
        reached = PointState(state.position + jnp.clip(action, -1, 1), state.time + 1)
        return Step(reached, self.observe(reached), jnp.bool_(False), reached.time >= self.horizon)

    def observe(self, state):
        return jnp.concatenate([state.position, state.time[None].astype(jnp.float32)])

    def features(self, observation):
        return observation[: self.feature_size]


def plane(feature_size: int = 2, horizon: int = 8) -> Plane:
    return Plane(feature_size=feature_size, horizon=horizon, observation_size=feature_size + 1)


class Mortal(EnvWrapper):
    """An env that terminates where the first feature is at least ``end``. The states after that are NaN."""

    inner: Env
    end: float = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Box | Discrete:
        return self.inner.action_space

    def reset(self, key):
        return self.inner.reset(key)

    def step(self, key, state, action) -> Step:
        dead, step = self._is_dead(state), self.inner.step(key, state, action)
        reached = jax.tree.map(lambda x: jnp.where(dead, jnp.nan, x).astype(x.dtype), step.state)
        return Step(reached, self.observe(reached), ~dead & self._is_dead(reached), step.truncated)

    def observe(self, state):
        return self.inner.observe(state)

    def features(self, observation):
        return self.inner.features(observation)

    def _is_dead(self, state):
        return ~(self.features(self.observe(state))[0] < self.end)


def mortal(inner: Env, end: float) -> Mortal:
    sizes = {name: getattr(inner, name) for name in ("horizon", "observation_size", "feature_size")}
    return Mortal(inner=inner, end=end, **sizes)


class Raw(Distribution):
    """The action is the output of the network itself."""

    size: int = eqx.field(static=True)

    def noise(self, key):
        return jnp.zeros(())

    def transform(self, noise, params):
        return params

    def log_prob(self, params, action):
        return jnp.float32(0.0)

    def entropy(self, params):
        return jnp.float32(0.0)

    def mean(self, params):
        return params


def linear_policy(weights: Array, codes: Array, **fields) -> SkillPolicy:
    """a = [o, z] W."""
    inputs, outputs = weights.shape
    actor = MLP([weights], [jnp.zeros(outputs)], jax.nn.relu)
    normaliser = identity_normaliser(inputs - codes.shape[-1])
    return SkillPolicy(actor, normaliser, Raw(outputs), codes, **fields)


def goes_by_code(size: int, codes: Array, **fields) -> SkillPolicy:
    """The policy a = z."""
    return linear_policy(jnp.concatenate([jnp.zeros((size + 1, size)), jnp.eye(size)]), codes, **fields)


def goes_to_code(size: int, codes: Array, **fields) -> SkillPolicy:
    """The policy a = z - x, which goes to the position z."""
    return linear_policy(jnp.concatenate([-jnp.eye(size), jnp.zeros((1, size)), jnp.eye(size)]), codes, **fields)

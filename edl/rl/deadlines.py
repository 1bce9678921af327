"""Goals with a deadline: the reward for being at the goal in the last step, and hindsight over goals and deadlines.

A goal-conditioned policy that sees the time left k (`edl.envs.clock`) learns to be at its goal k steps later:

    r_t    = -log(1 + (d(s_{t+1}, g) / rho)^2) / 4  if s_{t+1} is the last state, or else 0
    Q      = r + V(s', g, k - 1), and r alone if k = 1 or if the episode terminates in s'

r is log q(s|z) of a Cauchy distribution, whose heavy tails give a gradient far from the goal. Nothing is rewarded
before the end, so the same policy serves goals at which an agent can rest and goals that it can only pass.

Every step that was played says something about all goals and all deadlines: the step is a correct example for the goal
s_{t+1} with deadline 1. So a step is replayed with another goal g and another deadline k, as in hindsight experience
replay (Andrychowicz et al., 2017) and temporal difference models (Pong et al., 2018):

* with a state that its episode reached k steps later, or
* with a goal that the method draws.

In both cases it is known where the episode was k steps later. In a deterministic env, the best return is at least r of
that state, whatever the later policy does, and r is at most 0. So targets are clipped to this range (He et al., 2017,
"Learning to play in a day"): credit for the end of a long episode reaches its first step at once, and not over hundreds
of bootstrapped steps. In a noisy env this is optimistic, as if luck could be repeated.

Short deadlines are drawn more often, because all values are learned from those of the shorter deadlines: half of all k
are log-uniform, and half are uniform.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.config import check
from edl.envs.base import Env
from edl.envs.clock import at_time_left
from edl.envs.rollout import Episode, Skill
from edl.nets.normalise import Normaliser
from edl.rl.replay import Replay, Transition, read
from edl.rl.sac import SACConfig, SACStart
from edl.types import Key


def deadline_sac(**changes: Any) -> SACConfig:
    """The settings of SAC for goals with a deadline."""
    recipe: dict[str, Any] = {
        "iterations": 60,
        "rollouts": 32,
        "capacity": 500_000,
        "warmup": 1,
        "update_every": 6,
        "batch_size": 256,
        "hidden": (64, 64),
        "gamma": 1.0,
        "tau": 0.02,
        "entropy_weight": 0.001,
        "entropy_in_value": False,
    }
    return SACConfig(**(recipe | changes))


class DeadlineStart(eqx.Module):
    """A policy for goals with a deadline as SAC needs it to go on; ``normaliser`` makes codes of goals."""

    learner: SACStart
    normaliser: Normaliser


DrawGoals = Callable[[Key, int], Float[Array, "n s"]]


def check_timed(env: Env) -> None:
    """Reject an env whose observations do not include the time left."""
    check(
        env.timed,
        "goals with a deadline need an env that shows the time left, which mazes and robots do not (got an env without "
        "it). Use another explorer and learner.algorithm ppo, or leave out --timed.",
    )


def deadline_score(
    features: Float[Array, "n s"], goal: Float[Array, "#n s"], unit: Float[Array, " s"], radius: float
) -> Float[Array, " n"]:
    """r of the module docstring, for ending in a state. Distances are in ``unit``, and ``radius`` is rho."""
    squares = jnp.sum(((features - goal) / unit) ** 2, axis=-1)
    return -jnp.log1p(squares / radius**2) / 4


def goal_code(goal: Float[Array, " s"], normaliser: Normaliser) -> Skill:
    """The skill of being at ``goal`` at the deadline. Its code is the normalised goal."""
    return Skill(code=normaliser(goal), index=jnp.int32(-1), goal=goal)


class Hindsight(NamedTuple):
    """How steps are replayed: with goals that ``draw`` returns or that were reached, and in which units.

    ``normaliser`` makes codes of goals, and ``unit`` and ``radius`` are those of the reward.
    """

    draw: DrawGoals
    normaliser: Normaliser
    unit: Float[Array, " s"]
    radius: float
    horizon: int

    def rewards(self, episode: Episode) -> Float[Array, " t"]:
        """r of the module docstring."""
        scores = deadline_score(episode.features[1:], episode.skill.goal[None], self.unit, self.radius)
        return jnp.where(episode.terminated | episode.truncated, scores, 0.0)


def replay_in_hindsight(key: Key, replay: Replay, rows: Int[Array, "m n"], how: Hindsight) -> Transition:
    """The steps in these rows with other deadlines, and with other goals: half of them with states reached later."""
    own_key, later_key, goal_key = jax.random.split(key, 3)
    flat = rows.reshape(-1)
    steps: Transition = read(replay, flat)
    assert steps.remaining is not None
    # A terminated episode stays in its last state, so it tells something about all deadlines.
    ends = replay.rows.terminated[(flat + steps.remaining) % replay.capacity]
    left = random_deadlines(later_key, jnp.where(ends, how.horizon, steps.remaining + 1))
    reached = replay.rows.features[(flat + jnp.minimum(left - 1, steps.remaining)) % replay.capacity, 1]
    own = jax.random.bernoulli(own_key, 0.5, flat.shape)
    goals = jnp.where(own[:, None], reached, how.draw(goal_key, flat.shape[0]))
    played = deadline_score(reached, goals, how.unit, how.radius)
    rewritten = steps._replace(
        observations=jnp.stack(
            [at_time_left(steps.observations[:, i], left - i, how.horizon) for i in range(2)], axis=1
        ),
        terminated=steps.terminated | (left == 1),
        skill=jax.vmap(lambda goal: goal_code(goal, how.normaliser))(goals),
        remaining=left - 1,
        bounds=jnp.stack([played, jnp.zeros_like(played)], axis=-1),
    )
    return jax.tree.map(lambda x: x.reshape(*rows.shape, *x.shape[1:]), rewritten)


def random_deadlines(key: Key, longest: Int[Array, " n"]) -> Int[Array, " n"]:
    """Numbers of steps from 1 to ``longest``: log-uniform for half of the rows, and uniform for the others."""
    log_key, share_key = jax.random.split(key)
    share = jax.random.uniform(share_key, longest.shape)
    uniform = 1 + jnp.floor(share * longest)
    log_uniform = jnp.floor(jnp.exp(share * jnp.log1p(longest.astype(jnp.float32))))
    chosen = jnp.where(jax.random.bernoulli(log_key, 0.5, longest.shape), log_uniform, uniform)
    return jnp.clip(chosen.astype(jnp.int32), 1, longest)

"""A method is an objective: the reward that the learner maximises, and what the method learns besides the policy.

The four functions are the columns of the paper's Table 1: where p(z), p(s), p(s|z) and p(z|s) come from. Reverse MI,
forward MI, DIAYN, VIC, ... learn while the policy learns. EDL's objective is frozen. That is the idea of the paper.
"""

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import check
from edl.envs.rollout import Episode, Skill
from edl.envs.success import SUCCESS_RADIUS
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.types import Key, Metrics, Scalar


def no_extra_input(state: Any, episode: Episode) -> Float[Array, " 0"]:
    """The critic sees the same input as the policy."""
    return jnp.zeros(0)


def train_on_all(state: Any, episode: Episode) -> Scalar:
    """Every episode trains the policy."""
    return jnp.float32(1.0)


def equal_entropy(state: Any, episode: Episode) -> Scalar:
    """The entropy bonus has the same weight in every episode."""
    return jnp.float32(1.0)


def unchanged(state: Any, episodes: Episode) -> Any:
    """The reward of an episode does not depend on the rest of the batch."""
    return state


def keep_skill(key: Key, state: Any, step: Episode, later: Float[Array, " s"]) -> Skill:
    """A step is replayed with the skill it was played with."""
    return step.skill


def no_interest(state: Any, learner: "LearnerView") -> Any:
    """The method does not look at the learner."""
    return state


class LearnerView(eqx.Module):
    """What a method may know of its learner: the policy, and the critics Q_i(s,z,a), with a leading axis."""

    policy: SkillPolicy
    critics: MLP

    def value(self, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Scalar:
        """min_i Q_i(s,z,a) of the policy's deterministic action; of all actions by their probability if discrete."""
        policy = self.policy
        inputs = policy.integrate(policy.normaliser(observation), code)
        params = policy.actor(inputs)
        if isinstance(policy.distribution, Categorical):
            return jax.nn.softmax(params) @ jnp.min(jax.vmap(lambda critic: critic(inputs))(self.critics), axis=0)
        pair = jnp.concatenate([inputs, policy.distribution.mean(params)])
        return jnp.min(jax.vmap(lambda critic: critic(pair))(self.critics))


class LinearReward(NamedTuple):
    """The parts of a reward r_t = phi_t . z that is linear in the code z, for learning successor features.

    ``cumulants(state, episode)`` are the features phi_0 .. phi_{T-1} of an episode. ``gpi_codes(codes)`` are other
    codes z_1 .. z_g for each code of a batch: generalised policy improvement compares the policies of these codes with
    the policy of the code itself.
    """

    cumulants: Callable[[Any, Episode], Float[Array, "t d"]]
    gpi_codes: Callable[[Float[Array, "n d"]], Float[Array, "g n d"]]


class RewardMemory(NamedTuple):
    """What a reward remembers of an episode: PPO computes the rewards of its next part alone, and ``update`` sees it.

    ``start(state, features)`` is the memory in the first state of an episode. ``rewards(state, memory, part)`` are the
    rewards of a part, and the memory after it. Together they must equal ``Objective.reward`` of the whole episode. If
    ``update`` is called after the rewards are computed, it finds the memory of every episode in ``episodes.memory``.
    """

    start: Callable[[Any, Float[Array, " s"]], Any]
    rewards: Callable[[Any, Any, Episode], tuple[Float[Array, " t"], Any]]


class Objective(NamedTuple):
    """The skills that a method plays, its reward, and what it learns besides the policy.

    ``init``    creates the state that the method learns: a discriminator, a density, a goal buffer, or nothing.
    ``sample``  draws z ~ p(z): fixed, learned (VIC), a curriculum (VALOR), a goal buffer (DISCERN, Skew-Fit).
    ``reward``  computes the rewards r_0 .. r_{T-1} of one episode; r_t is for reaching s_{t+1}. The learner vmaps.
    ``update``  learns from a batch of episodes and returns metrics; EDL's only counts which skills succeed.

    The other fields are optional. A learner declares those it supports and rejects an objective that sets another one
    (`check_supported`).

    ``siblings``        (PPO) Episodes per skill from one start (Sibling Rivalry: 2). `episode.rival` is the state in
                        which the other sibling ended.
    ``privileged``      (PPO) Input of the critic that the policy does not see (Sibling Rivalry: the antigoal).
    ``weight``          (PPO) Weight of an episode in the losses of PPO (Sibling Rivalry: 0 or 1).
    ``entropy_scale``   (PPO) Factor of the entropy bonus in an episode (EDL: larger for skills that fail).
    ``before_rewards``  (PPO, SAC) Receives the batch of episodes whose rewards are about to be computed, and returns
                        the state that ``reward`` gets. This is how a reward sees the whole batch: the negative samples
                        of BeCL, the nearest neighbours of APT and CIC, the visit counts of SNN4HRL. Both learners call
                        it on the new episodes of an iteration, and ``update`` gets the state it returned. SAC also
                        calls it on every minibatch whose rewards it refreshes, as a batch of one-step episodes, and
                        uses the returned state for the rewards of that minibatch only. The two batches differ in size.
    ``learns``          (PPO) When ``update`` is called. ``after``: after the rewards are computed, so that these come
                        from the model of the last iteration. ``before``: with the same episodes, so that the rewards
                        come from a model that was fitted to them. ``separately``: with a second batch of episodes of
                        the same policy, which is played first and trains only the model.
    ``needs``           (PPO) What ``reward`` and ``update`` must see of an episode. ``episode``: all of it. ``steps``:
                        any part will do, because a reward depends on its own step alone, or because there is a
                        ``memory``. PPO can then learn before an episode is over.
    ``memory``          (PPO) How rewards of a part are computed if they depend on earlier steps (walking distance).
    ``relabel``         (SAC) The skill with which a step, given as an episode of length one, is replayed. ``later`` is
                        drawn uniformly from the states that its episode reached at that step or after it (hindsight).
    ``rewrite``         (SAC) Like ``relabel``, for a method that changes more than the skill of a step: it receives the
                        replay buffer and the numbers of all rows that an iteration replays, and returns the transitions
                        that are replayed in their place (`edl.rl.deadlines`: another goal and another deadline). An
                        objective cannot set both.
    ``linear``          (SAC) The parts of a reward that is linear in z. The critics then learn successor features.
    ``see_learner``     (SAC) Receives the learner's policy and critics before the episodes of an iteration are played,
                        and returns the state that ``sample``, ``reward`` and ``update`` get. This is how p(z) depends
                        on V(s_0,z) (RSD), and a reward on the policy of another skill (DISCO-DANCE). It is also called
                        on the result of ``init``, so the state may have another structure there.
    ``change_skill``    (SAC) The skill of a step, for an episode whose skill changes (TLDR: first to a goal, then it
                        explores). It receives the state, the skill of the step before (at time 0: the one that
                        ``sample`` drew), the time and the features of the step. Each step is replayed with its own
                        skill. ``reward`` finds the skills in ``episode.skills``, or is lifted by `per_visit` or
                        `per_move`, which do.
    """

    init: Callable[[Key], Any]
    sample: Callable[[Key, Any], Skill]
    reward: Callable[[Any, Episode], Float[Array, " t"]]
    update: Callable[[Key, Any, Episode], tuple[Any, Metrics]]
    siblings: int = 1
    privileged: Callable[[Any, Episode], Float[Array, " c"]] = no_extra_input
    weight: Callable[[Any, Episode], Scalar] = train_on_all
    entropy_scale: Callable[[Any, Episode], Scalar] = equal_entropy
    before_rewards: Callable[[Any, Episode], Any] = unchanged
    learns: Literal["after", "before", "separately"] = "after"
    needs: Literal["episode", "steps"] = "episode"
    memory: RewardMemory | None = None
    relabel: Callable[[Key, Any, Episode, Float[Array, " s"]], Skill] = keep_skill
    rewrite: Callable[[Key, Any, Any, Int[Array, "m n"]], Any] | None = None
    linear: LinearReward | None = None
    see_learner: Callable[[Any, LearnerView], Any] = no_interest
    change_skill: Callable[[Any, Skill, Int[Array, ""], Float[Array, " s"]], Skill] | None = None


def check_supported(objective: Objective, learner: str, supported: Collection[str]) -> None:
    """Raise a `ConfigError` if ``objective`` sets an optional field that is not in ``supported``.

    A field that is added to `Objective` is rejected by every learner until the learner lists it.
    """
    for name, default in Objective._field_defaults.items():
        check(
            name in supported or getattr(objective, name) == default,
            f"{learner} does not support the field {name!r} of an Objective (it supports {', '.join(supported)}). "
            "Use a learner that supports it, or leave the field at its default.",
        )


def skill_of_steps(episode: Episode) -> tuple[Skill, int | None]:
    """The skill of all steps, and None; or the skill of each step, and the axis of time."""
    return (episode.skill, None) if episode.skills is None else (episode.skills, 0)


VisitReward = Callable[[Any, Float[Array, " s"], Skill], Scalar]


def per_visit(reward: VisitReward) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward r(s, z) written for one state to an episode: r_t = r(s_{t+1}, z)."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        skill, axis = skill_of_steps(episode)
        return jax.vmap(reward, in_axes=(None, 0, axis))(state, episode.features[1:], skill)

    return of_episode


MoveReward = Callable[[Any, Float[Array, " s"], Float[Array, " s"], Skill], Scalar]


def per_move(reward: MoveReward) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward r(s, s', z) written for one move to an episode: r_t = r(s_t, s_{t+1}, z)."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        before, after = episode.features[:-1], episode.features[1:]
        skill, axis = skill_of_steps(episode)
        return jax.vmap(reward, in_axes=(None, 0, 0, axis))(state, before, after, skill)

    return of_episode


def per_episode(reward: Callable[[Any, Episode], Scalar]) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward written for a whole episode: its last valid step gets the reward, all others get zero."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        return jnp.zeros(episode.valid.shape[0]).at[episode.length - 1].set(reward(state, episode))

    return of_episode


def goal_metrics(episodes: Episode, unit: Float[Array, " s"] | float = 1.0) -> Metrics:
    """Mean distance from the last state to the goal, in ``unit``, and the share of episodes within `SUCCESS_RADIUS`.

    For the log and for early stopping. The distance is Euclidean, because a learner must not see the walls: an episode
    that ends behind a thin wall counts as a success. The metrics of a run use walking distance instead.
    """
    distances = goal_distances(episodes, unit)
    return {"goal_distance": jnp.mean(distances), "goal_success": jnp.mean(distances <= SUCCESS_RADIUS)}


def goal_distances(episodes: Episode, unit: Float[Array, " s"] | float = 1.0) -> Float[Array, " e"]:
    """Euclidean distance from the last state of each episode to its goal, in ``unit``."""
    ends = jax.vmap(lambda episode: episode.last)(episodes)
    return jnp.linalg.norm((ends - episodes.skill.goal) / unit, axis=-1)

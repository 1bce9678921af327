"""Stage 3: train pi(a|s,z) to end where the decoder would have put it, r = log q(s|z) (Eq. 9 of the paper).

The objective is frozen: ``update`` learns nothing, because p(s), and with it q(s|z), was fixed in stages 1 and 2. That
is the difference between EDL and every method in `edl.baselines`.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import Experience, SkillModel, SkillPolicy
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.learn.distance import Distance, Euclidean, Normalised
from edl.learn.reward import posterior, reward
from edl.learn.rivalry import rival_reward, rival_weight
from edl.learn.walking import WalkingConfig, walking_distance
from edl.nets.normalise import Normaliser
from edl.objective import Objective
from edl.program import Program, until
from edl.rl import ppo_config
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics

SUCCESS = 0.5
"""An episode succeeds if it ends this close to its goal (Euclidean, in the world's units or standard deviations)."""


@config
class LearnConfig:
    """Defaults are those of the ``fast`` preset; `paper` has the paper's."""

    reward: Literal["log_likelihood", "shipped", "progress", "visits", "posterior"] = "progress"
    """``log_likelihood`` (the paper's equation), ``shipped`` (the authors' code), ``progress`` (ours); or
    ``posterior``, the reverse form that the paper's appendix argues against, without distance or siblings."""
    distance: Literal["euclidean", "walking", "normalised"] = "walking"
    """``euclidean`` (the paper), ``walking``, estimated from experience (ours), or ``normalised``: in standard
    deviations of p(s), for worlds whose dimensions have no common unit."""
    place_goals: bool = True
    """Move goals to where p(s) has less to walk, if distance is walked: none is left behind a wall."""
    rivalry: bool = False
    """Play siblings, and train on the terminal, undiscounted reward of Sibling Rivalry."""
    epsilon: float = 5.0
    """Sibling Rivalry: how near siblings must end for both to train."""
    radius: float = 0.15
    """delta, within which the goal counts as reached by the reward."""
    stop_at: float = 0.99
    """Stop early once the running mean of goal_success is this high; above 1, never."""
    ppo: PPOConfig = PPOConfig(iterations=800)
    walking: WalkingConfig = WalkingConfig()


def paper(**changes: Any) -> LearnConfig:
    """Euclidean distance, Sibling Rivalry, 2 x 50 episodes a cycle, 12.5M steps; undiscounted, as its reward is."""
    recipe: dict[str, Any] = {
        "reward": "shipped",
        "distance": "euclidean",
        "rivalry": True,
        "stop_at": 2.0,
        "ppo": ppo_config.paper(gamma=1.0, bootstrap=False),
    }
    return LearnConfig(**(recipe | changes))


def measure(key: Key, experience: Experience | None, config: LearnConfig) -> Distance:
    """The distance that the config names. ``experience`` is needed for walking distance alone.

    It is made once, before learning, and handed to `learn`: an estimate that moved with the policy would make the
    reward move too.
    """
    if config.distance != "walking":
        return Euclidean()
    if experience is None:
        raise ConfigError("distance=walking without experience: episodes to measure by are wanted. Use a scout.")
    return walking_distance(key, experience, config.walking)


def learn(env: Env, skills: SkillModel, distance: Distance, config: LearnConfig) -> Program[Any, SkillPolicy]:
    """Train a policy for the skills."""
    if config.distance == "normalised":
        distance = Normalised(skills.normaliser)
    normaliser = widen(skills.normaliser, env.observation_size)
    objective = edl_objective(skills, distance, config)
    program = ppo(env, objective, config.ppo, codes=skills.codes, normaliser=normaliser)
    return until(program, "goal_success", config.stop_at)


def edl_objective(skills: SkillModel, distance: Distance, config: LearnConfig) -> Objective:
    """r = log q(s|z), with everything in it fixed."""

    def update(key: Key, state: None, episodes: Episode) -> tuple[None, Metrics]:
        return state, goal_metrics(episodes, unit)

    unit = distance.normaliser.scale if isinstance(distance, Normalised) else 1.0
    common = {"init": lambda key: None, "sample": lambda key, state: skills.sample(key), "update": update}
    if config.reward == "posterior":
        return Objective(**common, reward=lambda state, episode: posterior(skills, episode))
    if not config.rivalry:
        aimed = distance if skills.continuous else distance.aim(skills.goals)
        return Objective(**common, reward=lambda state, episode: reward(config.reward, aimed, config.radius, episode))
    return Objective(
        **common,
        reward=lambda state, episode: rival_reward(config.reward, distance, config.radius, episode),
        siblings=2,
        privileged=lambda state, episode: skills.normaliser(episode.rival),
        weight=lambda state, episode: rival_weight(distance, config.radius, config.epsilon, episode),
    )


def goal_metrics(episodes: Episode, unit: Float[Array, " s"] | float = 1.0) -> Metrics:
    """How far from their goals episodes ended, in these units, and the share that ended within `SUCCESS`."""
    ends = jax.vmap(lambda episode: episode.last)(episodes)
    distances = jnp.linalg.norm((ends - episodes.skill.goal) / unit, axis=-1)
    return {"goal_distance": jnp.mean(distances), "goal_success": jnp.mean(distances <= SUCCESS)}


def widen(normaliser: Normaliser, size: int) -> Normaliser:
    """The normaliser of the states, where the policy sees just them; otherwise none (use ``ppo.normalise``)."""
    if normaliser.mean.shape[-1] == size:
        return normaliser
    return Normaliser(jnp.zeros(size), jnp.ones(size))

"""Stage 3: train pi(a|s,z) to reach the states that the decoder predicts, r = log q(s|z) (Eq. 9 of the paper).

The objective is frozen: ``update`` learns nothing, because stages 1 and 2 have fixed p(s) and with it q(s|z). This is
the difference between EDL and every method in `edl.baselines`.
"""

from typing import Any, Literal

from edl.artifacts import Experience, SkillModel, SkillPolicy
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.learn.distance import Distance, EuclideanDistance, NormalisedDistance
from edl.learn.reward import posterior_reward, reward
from edl.learn.rivalry import rival_reward, rival_weight
from edl.learn.walking import WalkingConfig, WalkingDistance, walking_distance
from edl.nets.normalise import Normaliser, identity_normaliser
from edl.objective import Objective, goal_metrics
from edl.program import Program, stop_at_target
from edl.rl.ppo import PPOConfig, paper_ppo, ppo
from edl.types import Key, Metrics


@config
class LearnConfig:
    """The defaults are those of the ``fast`` preset; `paper` returns the paper's settings."""

    reward: Literal["log_likelihood", "shipped", "progress", "visits", "posterior"] = "progress"
    """``log_likelihood``: the paper's equation. ``shipped``: the reward of the authors' code. ``progress``: ours, the
    decrease of the distance to the goal per step. ``visits``: 1 / (1 + d^2), for envs in which the agent cannot stay at
    a goal. ``posterior``: the reverse form that the paper's appendix argues against; it uses no distance and no
    siblings."""
    distance: Literal["euclidean", "walking", "normalised"] = "walking"
    """``euclidean``: the paper's distance. ``walking``: ours, estimated from experience. ``normalised``: in standard
    deviations of p(s), for envs whose dimensions have no common unit."""
    place_goals: bool = True
    """Move a goal if that shortens the walks from p(s) to the nearest goal, e.g. to the other side of a wall. Only with
    walking distance."""
    rivalry: bool = False
    """Play two siblings per skill, and train on the terminal, undiscounted reward of Sibling Rivalry."""
    epsilon: float = 5.0
    """Sibling Rivalry: both siblings train the policy if they end within this distance of each other."""
    radius: float = 0.15
    """delta, the distance from the goal within which the reward counts it as reached."""
    stop_at: float = 0.99
    """Stop early when the running mean of goal_success reaches this value. A value above 1 never stops early."""
    ppo: PPOConfig = PPOConfig(iterations=800)
    """Settings of PPO."""
    walking: WalkingConfig = WalkingConfig()
    """Settings of walking distance."""


def paper(**changes: Any) -> LearnConfig:
    """The paper's settings: Euclidean distance, Sibling Rivalry, 2 x 50 episodes per iteration, 12.5M steps."""
    recipe: dict[str, Any] = {
        "reward": "shipped",
        "distance": "euclidean",
        "rivalry": True,
        "stop_at": 2.0,
        "ppo": paper_ppo(gamma=1.0, bootstrap=False),
    }
    return LearnConfig(**(recipe | changes))


def measure(key: Key, experience: Experience | None, config: LearnConfig) -> WalkingDistance:
    """Estimate walking distance from experience.

    This happens once, before learning. If the estimate changed with the policy, the reward would change too.
    """
    if experience is None:
        raise ConfigError(
            "distance='walking' needs experience: the explored states must come with episodes (got none). "
            "Set a scout, or use distance='euclidean'."
        )
    return walking_distance(key, experience, config.walking)


def distance_for(config: LearnConfig, skills: SkillModel, measured: Distance | None) -> Distance:
    """The distance that ``config.distance`` names. ``measured`` is the result of `measure`, for walking distance."""
    if config.distance == "euclidean":
        return EuclideanDistance()
    if config.distance == "normalised":
        return NormalisedDistance(skills.normaliser)
    if measured is None:
        raise ConfigError("distance='walking' needs a measured distance (got none). Call edl.learn.measure first.")
    return measured


def learn(env: Env, skills: SkillModel, distance: Distance, config: LearnConfig) -> Program[Any, SkillPolicy]:
    """Train a policy for the skills, with a reward in ``distance`` (see `distance_for`)."""
    normaliser = policy_normaliser(skills.normaliser, env.observation_size)
    objective = edl_objective(skills, distance, config)
    program = ppo(env, objective, config.ppo, codes=skills.codes, normaliser=normaliser)
    return stop_at_target(program, "goal_success", config.stop_at)


def edl_objective(skills: SkillModel, distance: Distance, config: LearnConfig) -> Objective:
    """r = log q(s|z), where nothing is learned besides the policy."""

    def update(key: Key, state: None, episodes: Episode) -> tuple[None, Metrics]:
        return state, goal_metrics(episodes, unit)

    unit = distance.normaliser.scale if isinstance(distance, NormalisedDistance) else 1.0
    common = {"init": lambda key: None, "sample": lambda key, state: skills.sample(key), "update": update}
    if config.reward == "posterior":
        return Objective(**common, reward=lambda state, episode: posterior_reward(skills, episode))
    if not config.rivalry:
        to_goals = distance if skills.continuous else distance.for_goals(skills.goals)
        return Objective(
            **common, reward=lambda state, episode: reward(config.reward, to_goals, config.radius, episode)
        )
    return Objective(
        **common,
        reward=lambda state, episode: rival_reward(config.reward, distance, config.radius, episode),
        siblings=2,
        privileged=lambda state, episode: skills.normaliser(episode.rival),
        weight=lambda state, episode: rival_weight(distance, config.radius, config.epsilon, episode),
    )


def policy_normaliser(normaliser: Normaliser, observation_size: int) -> Normaliser:
    """The normaliser of the states if the policy observes exactly these; otherwise none (use ``ppo.normalise``)."""
    if normaliser.mean.shape[-1] == observation_size:
        return normaliser
    return identity_normaliser(observation_size)

"""Stage 3: train pi(a|s,z) to reach the states that the decoder predicts, r = log q(s|z) (Eq. 9 of the paper).

The reward is frozen, because stages 1 and 2 have fixed p(s) and with it q(s|z). This is the difference between EDL and
every method in `edl.baselines`. The objective only keeps count of which skills succeed: skills that fail are drawn more
often, and learning stops when the worst skill is good enough.

Learning starts from scratch, or from a policy pi(a|s,g) for any goal g that the explorer has learned (``start``). The
code of a skill is then its goal, z = g_z, so that

    pi(a|s,z) = pi_explorer(a|s, g_z)        before the first gradient step.

The critic and the moments of the inputs go on as well. q(z|s) still says which skill leads to a state.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, Integration, SkillModel, SkillPolicy
from edl.config import ConfigError, check, config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.envs.success import success_of
from edl.learn.distance import Distance, EuclideanDistance, NormalisedDistance
from edl.learn.reward import RewardTerms, posterior_reward, reward, rewards_along
from edl.learn.rivalry import antigoal, rival_reward, rival_weight
from edl.learn.walking import WalkingConfig, WalkingDistance, walking_distance
from edl.nets.normalise import Normaliser, identity_normaliser
from edl.objective import Objective, RewardMemory, goal_distances
from edl.program import NEVER_STOP, Program, stop_at_target
from edl.rl.deadlines import DeadlineStart, Hindsight, check_timed, deadline_sac, replay_in_hindsight
from edl.rl.ppo import PPOConfig, PPOStart, paper_ppo, ppo
from edl.rl.replay import Replay, Transition
from edl.rl.sac import SACConfig, check_whole_episodes, sac
from edl.types import Key, Metrics, Scalar

SUCCESS_RATE = 0.1
"""Weight of the newest iteration in the running success of a skill."""
MIN_WEIGHT = 0.2
"""Weight with which a skill that always succeeds is drawn."""
BOOST_FADES = (0.7, 0.85)
"""The extra entropy of skills that fail fades between these shares of the iterations. It helps a skill to find its
goal, but a skill that cannot stay there because of it would keep failing, and keep the extra entropy."""
MAX_LOCATED_GOALS = 1000
"""Up to this number of goals, all are located before a chunk of iterations. Of more, each episode locates its own."""


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
    """Move a goal if that shortens the walks from p(s) to the nearest goal, e.g. to the other side of a wall, and move
    goals away from thin walls. Only with walking distance."""
    rivalry: bool = False
    """Play two siblings per skill, and train on the terminal, undiscounted reward of Sibling Rivalry."""
    epsilon: float = 5.0
    """Sibling Rivalry: both siblings train the policy if they end within this distance of each other."""
    radius: float = 0.15
    """delta, the distance from the goal within which the reward counts it as reached."""
    focus: float = 1.0
    """How much more often skills that fail are drawn: p(z) ~ 0.2 + focus (1 - success of z). 0: all equally often."""
    entropy_boost: float = 50.0
    """How much more entropy a skill gets if it fails where others succeed: its entropy bonus is multiplied by
    1 + entropy_boost (mean success - success of the skill). A skill that always makes the same mistake, e.g. at a wall
    beyond its goal, must try other actions to find its way. The extra entropy fades near the end (`BOOST_FADES`).
    0: all skills have the same bonus."""
    stop_at: float = 0.98
    """Stop early when the running success of the worst skill reaches this value. A value above 1 never stops early."""
    bonus: float = 0.0
    """With the reward ``progress``: b, the reward for a whole episode within the distance at which a goal counts as
    reached (`edl.envs.success`); a step has the reward b / T. It is for agents that cannot stand still at a goal."""
    scale_rewards: bool = False
    """Divide the reward ``progress`` by the standard deviation of p(s), so that it has the same size in every env."""
    start: Literal["scratch", "explorer"] = "scratch"
    """``scratch``: with new networks, and the codes of stage 2. ``explorer``: with the policy of the explorer, if it
    has one (`beyond`), and goals as codes. ``ppo.hidden`` must then be that of the explorer."""
    scale_inputs: bool = True
    """Give PPO the moments of the explored states: they normalise the critic's antigoal and, without ``ppo.normalise``,
    the observations. The authors' code does not use them for this."""
    algorithm: Literal["ppo", "sac"] = "ppo"
    """``ppo``: PPO with the reward above. ``sac``: SAC with a reward at the end of the episode alone and hindsight
    (`edl.rl.deadlines`). It learns from far fewer env steps, and needs an env that shows the time left (``timed``).
    The reward, its distance and rivalry are then not used."""
    ppo: PPOConfig = PPOConfig(iterations=800, gamma=0.97, normalise=False)
    """Settings of PPO."""
    sac: SACConfig = deadline_sac()
    """Settings of SAC."""
    walking: WalkingConfig = WalkingConfig()
    """Settings of walking distance."""


def paper(env: str = "square", *, rivalry: bool = True, **changes: Any) -> LearnConfig:
    """The recipe of the authors' code: Euclidean distance, Sibling Rivalry, 2 x 50 episodes per iteration, 12.5M steps.

    Without ``rivalry`` (6.25M steps) the reward is dense and discounted, and ``env``, the name of the env, decides
    whether inputs are normalised. With siblings the authors' code loses two settings of its configs: the networks have
    three hidden layers instead of two, and inputs are never normalised.

    Departs from it: without siblings V(s_T) is bootstrapped at the time limit even if the episode ends at its goal, and
    the authors then do not bootstrap. The docstring of `edl.rl.ppo` lists the differences that concern PPO.
    """
    siblings = paper_ppo(hidden=(128, 128, 128), normalise=False, gamma=1.0, bootstrap=False)
    recipe: dict[str, Any] = {
        "reward": "shipped",
        "distance": "euclidean",
        "rivalry": rivalry,
        "focus": 0.0,
        "entropy_boost": 0.0,
        "stop_at": NEVER_STOP,
        "scale_inputs": False,
        "ppo": siblings if rivalry else paper_ppo(env),
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


def learn(
    env: Env, skills: SkillModel, distance: Distance, config: LearnConfig, explorer: SkillPolicy | None = None
) -> Program[Any, SkillPolicy]:
    """Train a policy for the skills, with a reward in ``distance`` (see `distance_for`).

    ``explorer`` is the policy of the explorer, for ``config.start`` "explorer".
    """
    if config.algorithm == "sac":
        program = deadline_learner(env, skills, config, explorer)
        return stop_at_target(program, "worst_skill_success", config.stop_at, rate=1.0)
    how: dict[str, Any] = {}
    if config.start == "explorer":
        start, integrate = check_start(skills, explorer)
        skills = dataclasses.replace(skills, codes=skills.goals)
        how = {"start": start.with_reward_unit(reward_unit(skills, config)), "integrate": integrate}
    elif config.scale_inputs:
        how = {"normaliser": policy_normaliser(skills.normaliser, env.observation_size)}
    program = ppo(env, edl_objective(skills, distance, config, env), config.ppo, codes=skills.codes, **how)
    return stop_at_target(program, "worst_skill_success", config.stop_at, rate=1.0)


def deadline_learner(
    env: Env, skills: SkillModel, config: LearnConfig, explorer: SkillPolicy | None
) -> Program[Any, SkillPolicy]:
    """SAC with a reward at the end of the episode. The code of a skill is its goal, normalised."""
    check_timed(env)
    check(
        not skills.continuous,
        "learner.algorithm 'sac' needs discrete skills, whose codes are goals (got a continuous prior). "
        "Use --discover vqvae or kmeans, or --learner.algorithm ppo.",
    )
    start, normaliser = None, skills.normaliser
    if config.start == "explorer":
        given = None if explorer is None else explorer.model
        if not isinstance(given, DeadlineStart):
            raise ConfigError(
                "learner.start 'explorer' with learner.algorithm 'sac' needs the explorer hindsight, which learns a "
                "policy for goals with a deadline. Use --explore hindsight, or --learner.start scratch."
            )
        start, normaliser = given.learner, given.normaliser
    codes = jax.vmap(normaliser)(skills.goals)
    objective = deadline_objective(dataclasses.replace(skills, codes=codes), normaliser, config, env)
    check_whole_episodes(config.sac)
    return sac(env, objective, config.sac, codes=codes, start=start)


def deadline_objective(skills: SkillModel, normaliser: Normaliser, config: LearnConfig, env: Env) -> Objective:
    """A reward at the end of the episode, and steps that are replayed with the goals of the skills."""
    common = skill_counts(skills, config, env)

    def draw(key: Key, num: int) -> Float[Array, "n s"]:
        return skills.goals[jax.random.randint(key, (num,), 0, skills.num_skills)]

    how = Hindsight(draw, normaliser, skills.normaliser.scale, success_of(env).radius, env.horizon)

    def reward(counts: SkillCounts, episode: Episode) -> Float[Array, " t"]:
        return how.rewards(episode)

    def rewrite(key: Key, counts: SkillCounts, replay: Replay, rows: Int[Array, "m n"]) -> Transition:
        return replay_in_hindsight(key, replay, rows, how)

    return Objective(**common, reward=reward, rewrite=rewrite)


def check_start(skills: SkillModel, explorer: SkillPolicy | None) -> tuple[PPOStart, Integration]:
    """The networks of the explorer and their input, or a `ConfigError` if it has none or if codes cannot be goals."""
    if explorer is None or not isinstance(explorer.model, PPOStart):
        raise ConfigError(
            "learner.start 'explorer' needs an explorer that learns a policy for goals, such as beyond (got an "
            "explorer without one). Use --explore beyond, or --learner.start scratch."
        )
    check(
        not skills.continuous,
        "learner.start 'explorer' needs discrete skills, whose codes are goals (got a continuous prior). "
        "Use --discover vqvae or kmeans, or --learner.start scratch.",
    )
    return explorer.model, explorer.integrate


def reward_unit(skills: SkillModel, config: LearnConfig) -> float | Scalar:
    """The length of the way to a goal for which ``progress`` is 1: the geometric mean of the scales of p(s), or 1."""
    return jnp.exp(jnp.mean(jnp.log(skills.normaliser.scale))) if config.scale_rewards else 1.0


class SkillCounts(NamedTuple):
    """The state of the objective: the running success of each skill, and the number of iterations so far."""

    success: Float[Array, " k"]
    iteration: Int[Array, ""]


class DistanceMemory(NamedTuple):
    """What the reward remembers of an episode: the memory of the distance, and the last distance to the goal."""

    place: Any
    distance: Scalar


def skill_counts(skills: SkillModel, config: LearnConfig, env: Env, to_goals: Distance | None = None) -> dict[str, Any]:
    """The parts of the objective besides the reward. Its state is `SkillCounts`.

    An episode succeeds if it ends near its goal in a straight line, and if ``to_goals``, the distance of the reward,
    confirms it: the goal may be behind a thin wall. This needs `DistanceMemory` in ``episodes.memory``.

    Skills from a continuous prior are not counted one by one: they have one common success.
    """
    goal_reached = success_of(env)
    unit = skills.normaliser.scale if goal_reached.unit == "standard deviations" else 1.0

    def init(key: Key) -> SkillCounts:
        return SkillCounts(jnp.zeros(1 if skills.continuous else skills.num_skills), jnp.int32(0))

    def sample(key: Key, counts: SkillCounts) -> Skill:
        if skills.continuous:
            return skills.sample(key)
        weights = MIN_WEIGHT + config.focus * (1.0 - counts.success)
        return skills.skill(jax.random.categorical(key, jnp.log(weights)))

    def update(key: Key, counts: SkillCounts, episodes: Episode) -> tuple[SkillCounts, Metrics]:
        distances, ended = goal_distances(episodes, unit), jax.vmap(lambda episode: episode.ended)(episodes)
        skill = jnp.zeros_like(episodes.skill.index) if skills.continuous else episodes.skill.index
        reached = distances <= goal_reached.radius
        if to_goals is not None and episodes.memory is not None:
            ends = jax.vmap(lambda episode: episode.last)(episodes)
            reached &= jax.vmap(to_goals.confirms)(episodes.memory.distance, ends, episodes.skill.goal)
        success = update_success(counts.success, reached, skill, ended)
        distance = jnp.sum(distances * ended) / jnp.maximum(jnp.sum(ended), 1)
        metrics = {"goal_distance": distance, "goal_success": jnp.mean(success)}
        return SkillCounts(success, counts.iteration + 1), {**metrics, "worst_skill_success": jnp.min(success)}

    return {"init": init, "sample": sample, "update": update}


def edl_objective(skills: SkillModel, distance: Distance, config: LearnConfig, env: Env) -> Objective:
    """r = log q(s|z), where nothing is learned besides the policy."""
    goal_reached = success_of(env)

    def entropy_scale(counts: SkillCounts, episode: Episode) -> Scalar:
        success, skill = counts.success, 0 if skills.continuous else episode.skill.index
        boost = config.entropy_boost * boost_left(counts.iteration / config.ppo.iterations)
        return 1.0 + boost * jnp.maximum(jnp.mean(success) - success[skill], 0.0)

    def common(to_goals: Distance | None = None) -> dict[str, Any]:
        return {**skill_counts(skills, config, env, to_goals), "entropy_scale": entropy_scale}

    if config.reward == "posterior":
        return Objective(**common(), reward=lambda state, episode: posterior_reward(skills, episode), needs="steps")
    if not config.rivalry:
        located = not skills.continuous and skills.num_skills <= MAX_LOCATED_GOALS
        to_goals = distance.for_goals(skills.goals) if located else distance
        terms = RewardTerms(config.radius)
        if config.reward == "progress":
            terms = RewardTerms(goal_reached.radius, config.bonus / env.horizon, reward_unit(skills, config))

        def start(state: Any, first: Float[Array, " s"]) -> DistanceMemory:
            return DistanceMemory(to_goals.start(first), jnp.float32(jnp.inf))

        def part_rewards(state: Any, memory: DistanceMemory, part: Episode) -> tuple[Float[Array, " t"], Any]:
            distances, place = to_goals.along_part(memory.place, part.features, part.skill.goal)
            return rewards_along(config.reward, distances, terms), DistanceMemory(place, distances[part.length])

        return Objective(
            **common(to_goals),
            reward=lambda state, episode: reward(config.reward, to_goals, terms, episode),
            needs="steps",
            memory=RewardMemory(start, part_rewards),
        )
    return Objective(
        **common(),
        reward=lambda state, episode: rival_reward(config.reward, distance, config.radius, episode),
        siblings=2,
        privileged=lambda state, episode: critic_antigoal(skills, distance, config, episode),
        weight=lambda state, episode: rival_weight(distance, config.radius, config.epsilon, episode),
    )


def boost_left(progress: Scalar) -> Scalar:
    """The share of the extra entropy that is left when a share of the iterations is done: 1, and at the end 0."""
    begin, end = BOOST_FADES
    return jnp.clip((end - progress) / (end - begin), 0.0, 1.0)


def update_success(
    success: Float[Array, " k"], reached: Bool[Array, " e"], skill: Int[Array, " e"], ended: Bool[Array, " e"]
) -> Float[Array, " k"]:
    """The running success of each skill after new episodes. Skills of which no episode has ended keep theirs."""
    played = jax.nn.one_hot(skill, success.shape[0]) * ended[:, None]
    count = jnp.sum(played, axis=0)
    share = jnp.sum(played * reached[:, None], axis=0) / jnp.maximum(count, 1.0)
    return success + SUCCESS_RATE * jnp.where(count > 0, share - success, 0.0)


def critic_antigoal(
    skills: SkillModel, distance: Distance, config: LearnConfig, episode: Episode
) -> Float[Array, " s"]:
    """The antigoal as the critic sees it."""
    rival = antigoal(distance, config.radius, episode)
    return skills.normaliser(rival) if config.scale_inputs else rival


def policy_normaliser(normaliser: Normaliser, observation_size: int) -> Normaliser:
    """The normaliser of the states if the policy observes exactly these; otherwise none (use ``ppo.normalise``)."""
    if normaliser.mean.shape[-1] == observation_size:
        return normaliser
    return identity_normaliser(observation_size)

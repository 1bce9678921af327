"""Stage 3 learns to reach goals with a frozen objective, with siblings or without."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.maze import maze
from edl.envs.rollout import rollout
from edl.learn import LearnConfig, distance_for, learn, measure, paper
from edl.learn.distance import EuclideanDistance, NormalisedDistance
from edl.learn.learn import BOOST_FADES, SkillCounts, edl_objective, policy_normaliser, update_success
from edl.learn.walking import WalkingDistance
from edl.nets.normalise import Normaliser
from edl.objective import goal_metrics
from edl.program import run_program
from edl.rl.ppo import PPOConfig, RunningEpisode, paper_ppo, rewards_of
from tests.compiling import jit
from tests.learn.episodes import episode

CORRIDOR = maze(layouts.parse("+-+-+-+-+-+\n|    S    |\n+-+-+-+-+-+"), horizon=12)
GOALS = jnp.array([[-2.0, 0.0], [2.0, 0.0]])
SCALE = Normaliser(jnp.array([0.1, 0.0]), jnp.array([1.5, 0.3]))
SKILLS = SkillModel(
    codes=jax.vmap(SCALE)(GOALS),
    goals=GOALS,
    decoded=GOALS,
    usage=jnp.full(2, 0.5),
    encoder=None,
    decoder=None,
    normaliser=SCALE,
)
TINY = PPOConfig(
    iterations=120,
    rollouts=64,
    minibatches=4,
    hidden=(16,),
    normalise=False,
    learning_rate=1e-2,
    last_learning_rate=1e-3,
    entropy_weight=0.0,
)
PLAIN = LearnConfig(distance="euclidean", ppo=TINY)
RIVALRY = paper(ppo=dataclasses.replace(TINY, rollouts=32, gamma=1.0, bootstrap=False), scale_inputs=True)


def counts_of(*success: float) -> SkillCounts:
    """The state of the objective at the beginning, with this running success of every skill."""
    return SkillCounts(jnp.array(success), jnp.int32(0))


@pytest.fixture(scope="module", params=[PLAIN, RIVALRY], ids=["progress", "sibling_rivalry"])
def learned(request):
    """A policy and the metrics of its training."""

    @jit
    def go(config, key):
        return run_program(learn(CORRIDOR, SKILLS, distance_for(config, SKILLS, None), config), key)

    return go(request.param, jax.random.key(0))


def test_goal_success_rises_during_training(learned):
    _, metrics = learned
    assert jnp.mean(metrics["goal_success"][:2]) < 0.2
    assert jnp.mean(metrics["goal_success"][-5:]) > 0.7
    assert jnp.mean(metrics["goal_distance"][-5:]) < 0.5 < 1.5 < metrics["goal_distance"][0]


def test_every_skill_of_the_policy_ends_at_its_goal(learned):
    policy, _ = learned

    def end(key, index):
        return rollout(key, CORRIDOR, lambda _, s, z: (policy.mode(s, z), jnp.zeros(())), SKILLS.skill(index)).last

    ends = jit(jax.vmap(jax.vmap(end, (0, None)), (None, 0)))(jax.random.split(jax.random.key(1), 8), jnp.arange(2))
    np.testing.assert_allclose(ends, jnp.broadcast_to(GOALS[:, None], ends.shape), atol=0.5)


def test_the_policy_has_the_normaliser_and_the_codes_of_the_skills(learned):
    policy, _ = learned
    np.testing.assert_array_equal(policy.normaliser.mean, SCALE.mean)
    np.testing.assert_array_equal(policy.normaliser.scale, SCALE.scale)
    np.testing.assert_array_equal(policy.codes, SKILLS.codes)


@pytest.mark.parametrize("running", [True, False])
def test_inputs_are_normalised_by_running_moments_or_not_at_all(running):
    # `learned` has the moments of the explored states.
    ppo = dataclasses.replace(TINY, iterations=1, rollouts=4, normalise=running)
    program = learn(CORRIDOR, SKILLS, EuclideanDistance(), dataclasses.replace(PLAIN, ppo=ppo, scale_inputs=running))
    state = jit(program.init)(jax.random.key(0))
    if running:
        state = jit(program.step)(state, jax.random.key(1))[0]
    expected = state.inner.moments.mean if running else jnp.zeros(2)
    np.testing.assert_array_equal(program.finish(state).normaliser.mean, expected)
    assert (np.abs(expected).max() > 0) == running


def test_inputs_are_scaled_by_the_moments_of_the_explored_states():
    assert LearnConfig().scale_inputs
    assert not LearnConfig().ppo.normalise  # no running moments on top


def test_a_policy_that_observes_more_than_the_state_has_no_normaliser():
    assert policy_normaliser(SCALE, 2) is SCALE
    np.testing.assert_array_equal(policy_normaliser(SCALE, 5)(jnp.arange(5.0)), jnp.arange(5.0))


AT_A_WALL = WalkingDistance(
    unit=jnp.ones(2),
    landmarks=jnp.array([[-0.5, 0.0], [0.5, 0.0]]),
    half_segments=jnp.zeros((2, 2)),  # no move crosses a landmark
    connected=jnp.ones(2, bool),
    starts=jnp.array([True, False]),
    path_lengths=jnp.array([[0.0, 6.0], [6.0, 0.0]]),
    visible=jnp.array([[0], [1]]),
    reference_states=jnp.array([[-0.2, 0.0], [0.2, 0.0]]),
    reference_landmarks=jnp.array([0, 1]),
    goal_distances=jnp.array([[0.3, 6.3], [6.3, 0.3]]),
)
"""A wall on x = 0 with a landmark on each side, 6 apart on foot. Each of the goals is 0.3 from its landmark."""
BESIDE_THE_WALL = dataclasses.replace(SKILLS, goals=AT_A_WALL.reference_states)


def played_at_the_wall(objective, goals, parts):
    """Episodes that end at (-0.1, 0), left of the wall, and in the middle of it if only the first part is played."""
    path = jnp.array([[-1.0, 0.0], [-0.4, 0.0], [-0.3, 0.0], [-0.1, 0.0], [9.0, 0.0]])  # the last step is not valid
    goals = jnp.asarray(goals)

    def play(goal, index):
        if parts == 1:
            whole = episode(path, goal, length=3)
            return whole._replace(memory=rewards_of(objective, jnp.zeros(2), whole, None)[1])
        first, second = episode(path[:3], goal), episode(path[2:], goal, length=1)
        skill = first.skill._replace(index=index)
        running = RunningEpisode(None, skill, jnp.int32(2), objective.memory.start(jnp.zeros(2), path[0]))
        _, memory = rewards_of(objective, jnp.zeros(2), first, running)
        return second._replace(memory=rewards_of(objective, jnp.zeros(2), second, running._replace(memory=memory))[1])

    episodes = jax.vmap(play)(BESIDE_THE_WALL.goals[goals], goals)
    return episodes._replace(skill=episodes.skill._replace(index=goals))


@pytest.mark.parametrize("parts", [1, 2])
def test_an_episode_that_ends_behind_a_wall_next_to_its_goal_has_not_reached_it(parts):
    config = dataclasses.replace(PLAIN, distance="walking")
    objective = edl_objective(BESIDE_THE_WALL, AT_A_WALL, config, CORRIDOR)
    episodes = jit(lambda: played_at_the_wall(objective, [0, 1], parts))()
    # To the first goal 0.1, which is visible. To the second 0.3 in a straight line, and 0.4 + 6.3 on foot.
    np.testing.assert_allclose(episodes.memory.distance, [0.1, 6.7], atol=1e-6)
    counts, metrics = objective.update(jax.random.key(0), counts_of(0.5, 0.5), episodes)
    np.testing.assert_allclose(counts.success, [0.55, 0.45])
    assert metrics["goal_distance"] == pytest.approx(0.2)
    straight = edl_objective(BESIDE_THE_WALL, EuclideanDistance(), PLAIN, CORRIDOR)
    counts, _ = straight.update(jax.random.key(0), counts_of(0.5, 0.5), played_at_the_wall(straight, [0, 1], parts))
    np.testing.assert_allclose(counts.success, [0.55, 0.55])


def test_the_objective_only_counts_which_skills_succeed():
    objective = edl_objective(SKILLS, EuclideanDistance(), PLAIN, CORRIDOR)
    counts = objective.init(jax.random.key(0))
    np.testing.assert_array_equal(counts.success, np.zeros(len(GOALS)))
    assert counts.iteration == 0
    episodes = jax.tree.map(
        lambda *x: jnp.stack(x),
        episode([[0.0, 0.0], [2.0, 0.3]], GOALS[1]),
        episode([[0.0, 0.0], [0.0, 0.0]], GOALS[0]),
        episode([[0.0, 0.0], [2.0, 0.3]], GOALS[1]),
    )
    episodes = episodes._replace(skill=episodes.skill._replace(index=jnp.array([1, 0, 1])))
    counts, metrics = objective.update(jax.random.key(0), counts_of(0.5, 0.5), episodes)
    assert counts.iteration == 1
    np.testing.assert_allclose(counts.success, [0.45, 0.55])  # a tenth of the way to 0 and to 1
    assert metrics["goal_success"] == pytest.approx(0.5)
    assert metrics["worst_skill_success"] == pytest.approx(0.45)
    assert metrics["goal_distance"] == pytest.approx((0.3 + 2.0 + 0.3) / 3)
    assert objective.siblings == 1


def test_a_skill_of_which_no_episode_has_ended_keeps_its_success():
    reached, skill = jnp.array([True, False, False]), jnp.array([0, 1, 0])
    success = update_success(jnp.array([0.2, 0.9]), reached, skill, jnp.array([True, False, False]))
    np.testing.assert_allclose(success, [0.28, 0.9])


def test_goal_metrics_use_the_last_valid_state():
    short = episode([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.0]], GOALS[1], length=1)
    metrics = goal_metrics(jax.tree.map(lambda x: x[None], short))
    assert metrics["goal_success"] == 1.0
    assert metrics["goal_distance"] == 0.0


def test_with_rivalry_the_critic_sees_the_normalised_antigoal():
    objective = edl_objective(SKILLS, EuclideanDistance(), RIVALRY, CORRIDOR)
    rivals = episode([[0.0, 0.0], [1.0, 0.0]], GOALS[1], rival=[1.6, 0.3])
    assert objective.siblings == 2
    np.testing.assert_allclose(objective.privileged(None, rivals), [1.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(objective.reward(None, rivals), [-1.0 + np.hypot(0.6, 0.3)], rtol=1e-5)
    assert objective.weight(None, rivals) == 1.0
    raw = edl_objective(SKILLS, EuclideanDistance(), dataclasses.replace(RIVALRY, scale_inputs=False), CORRIDOR)
    np.testing.assert_allclose(raw.privileged(None, rivals), [1.6, 0.3])
    reached = rivals._replace(rival=GOALS[1] + 0.1)
    np.testing.assert_allclose(raw.privileged(None, reached), GOALS[1])  # the rival succeeded


@pytest.mark.parametrize(("focus", "share"), [(0.0, 0.5), (1.0, 0.2 / 1.4)])
def test_skills_that_fail_are_drawn_more_often(focus, share):
    """The second of two skills always succeeds: it has weight 0.2, and the first has 0.2 + focus."""
    objective = edl_objective(SKILLS, EuclideanDistance(), dataclasses.replace(PLAIN, focus=focus), CORRIDOR)
    counts = counts_of(0.0, 1.0)
    drawn = jax.vmap(lambda key: objective.sample(key, counts))(jax.random.split(jax.random.key(0), 2000))
    np.testing.assert_array_equal(drawn.goal, GOALS[drawn.index])
    assert jnp.mean(drawn.index) == pytest.approx(share, abs=0.03)


def test_a_skill_that_fails_where_others_succeed_gets_more_entropy():
    np.testing.assert_allclose(entropy_scales_after(0), [1 + 10 * (0.5 - 0.2), 1.0])
    np.testing.assert_allclose(entropy_scales_after(0.5 * TINY.iterations), [4.0, 1.0])


def test_the_extra_entropy_fades_before_training_ends():
    half_way = sum(BOOST_FADES) / 2 * TINY.iterations
    np.testing.assert_allclose(entropy_scales_after(half_way), [1 + 10 * (0.5 - 0.2) / 2, 1.0], rtol=1e-5)
    np.testing.assert_allclose(entropy_scales_after(BOOST_FADES[1] * TINY.iterations), [1.0, 1.0], atol=1e-5)
    np.testing.assert_array_equal(entropy_scales_after(TINY.iterations), [1.0, 1.0])


def entropy_scales_after(iterations: float) -> list[float]:
    """The factors of the entropy of two skills with a success of 0.2 and 0.8, with an ``entropy_boost`` of 10."""
    objective = edl_objective(SKILLS, EuclideanDistance(), dataclasses.replace(PLAIN, entropy_boost=10.0), CORRIDOR)
    one = episode([[0.0, 0.0], [2.0, 0.3]], GOALS[1])
    counts = counts_of(0.2, 0.8)._replace(iteration=jnp.int32(round(iterations)))
    of_skill = [one._replace(skill=one.skill._replace(index=jnp.int32(index))) for index in (0, 1)]
    return [float(objective.entropy_scale(counts, each)) for each in of_skill]


def test_training_stops_at_a_goal_success_that_neither_run_reached(learned):
    _, metrics = learned
    assert not metrics["done"].any()
    assert 0.5 < PLAIN.stop_at < 1.0 < paper().stop_at


@pytest.mark.parametrize("env", ["square", "bottleneck"])
def test_the_recipe_of_the_authors_with_siblings(env):
    recipe = paper(env)
    assert (recipe.reward, recipe.distance, recipe.rivalry) == ("shipped", "euclidean", True)
    assert (recipe.epsilon, recipe.radius, recipe.scale_inputs) == (5.0, 0.15, False)
    expected = paper_ppo(hidden=(128, 128, 128), normalise=False, gamma=1.0, bootstrap=False)
    assert recipe.ppo == expected
    assert recipe.ppo.iterations * recipe.ppo.rollouts * 2 * 50 == 12_500_000
    assert isinstance(distance_for(recipe, SKILLS, None), EuclideanDistance)


@pytest.mark.parametrize("env", ["square", "bottleneck"])
def test_the_recipe_of_the_authors_without_siblings(env):
    recipe = paper(env, rivalry=False)
    assert (recipe.reward, recipe.rivalry, recipe.scale_inputs) == ("shipped", False, False)
    assert recipe.ppo == paper_ppo(env)
    assert (recipe.ppo.gamma, recipe.ppo.bootstrap, recipe.ppo.hidden) == (0.99, True, (128, 128))


def test_distance_for_returns_the_distance_that_the_config_names():
    measured = EuclideanDistance()  # stands for any distance that was measured
    assert distance_for(LearnConfig(distance="walking"), SKILLS, measured) is measured
    assert isinstance(distance_for(LearnConfig(distance="euclidean"), SKILLS, None), EuclideanDistance)
    normalised = distance_for(LearnConfig(distance="normalised"), SKILLS, None)
    assert isinstance(normalised, NormalisedDistance)
    np.testing.assert_allclose(normalised.along(GOALS, GOALS[1]), [4.0 / 1.5, 0.0], atol=1e-5)


def test_walking_distance_needs_to_be_measured_from_experience():
    config = LearnConfig(distance="walking")
    with pytest.raises(ConfigError, match="distance='walking' needs a measured distance"):
        distance_for(config, SKILLS, None)
    with pytest.raises(ConfigError, match="distance='walking' needs experience"):
        measure(jax.random.key(0), None, config)


def test_learn_uses_the_distance_that_it_is_given():
    # With distance="normalised", learn() used to replace the distance that it was given.
    config = LearnConfig(distance="normalised", ppo=dataclasses.replace(TINY, iterations=1, rollouts=4))

    @jit
    def total_reward(distance):
        _, metrics = run_program(learn(CORRIDOR, SKILLS, distance, config), jax.random.key(0))
        return metrics["return"][0]

    normalised, euclidean = total_reward(distance_for(config, SKILLS, None)), total_reward(EuclideanDistance())
    assert not np.isclose(normalised, euclidean)

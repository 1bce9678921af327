"""Stage 3 learns to reach goals, with siblings or without, from an objective that is frozen."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel
from edl.envs import layouts
from edl.envs.maze import maze
from edl.envs.rollout import rollout
from edl.learn import LearnConfig, learn, measure, paper
from edl.learn.distance import Euclidean
from edl.learn.learn import edl_objective, goal_metrics, widen
from edl.nets.normalise import Normaliser
from edl.program import execute
from edl.rl.ppo import PPOConfig
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
    learning_rate=1e-2,
    last_learning_rate=1e-3,
    entropy_weight=0.0,
)
PLAIN = LearnConfig(distance="euclidean", ppo=TINY)
RIVALS = paper(ppo=dataclasses.replace(TINY, rollouts=32, gamma=1.0, bootstrap=False))


@pytest.fixture(scope="module", params=[PLAIN, RIVALS], ids=["progress", "sibling_rivalry"])
def learned(request):
    """A policy and how its training went."""

    @jit
    def go(config, key):
        return execute(learn(CORRIDOR, SKILLS, measure(key, None, config), config), key)

    return go(request.param, jax.random.key(0))


def test_goals_are_reached_more_and_more(learned):
    _, metrics = learned
    assert jnp.mean(metrics["goal_success"][:2]) < 0.2
    assert jnp.mean(metrics["goal_success"][-5:]) > 0.7
    assert jnp.mean(metrics["goal_distance"][-5:]) < 0.5 < 1.5 < metrics["goal_distance"][0]


def test_the_policy_takes_every_skill_to_its_goal(learned):
    policy, _ = learned

    def end(key, index):
        return rollout(key, CORRIDOR, lambda _, s, z: (policy.mode(s, z), jnp.zeros(())), SKILLS.skill(index)).last

    ends = jit(jax.vmap(jax.vmap(end, (0, None)), (None, 0)))(jax.random.split(jax.random.key(1), 8), jnp.arange(2))
    np.testing.assert_allclose(ends, jnp.broadcast_to(GOALS[:, None], ends.shape), atol=0.5)


def test_the_policy_normalises_as_the_skills_do(learned):
    policy, _ = learned
    np.testing.assert_array_equal(policy.normaliser.scale, SCALE.scale)
    np.testing.assert_array_equal(policy.codes, SKILLS.codes)


def test_a_policy_that_sees_more_than_the_state_is_not_normalised_by_it():
    assert widen(SCALE, 2) is SCALE
    np.testing.assert_array_equal(widen(SCALE, 5)(jnp.arange(5.0)), jnp.arange(5.0))


def test_the_objective_is_frozen_and_reports():
    objective = edl_objective(SKILLS, Euclidean(), PLAIN)
    assert objective.init(jax.random.key(0)) is None
    episodes = jax.tree.map(
        lambda *x: jnp.stack(x),
        episode([[0.0, 0.0], [2.0, 0.3]], GOALS[1]),
        episode([[0.0, 0.0], [0.0, 0.0]], GOALS[0]),
    )
    state, metrics = objective.update(jax.random.key(0), None, episodes)
    assert state is None
    assert metrics["goal_success"] == 0.5
    assert metrics["goal_distance"] == pytest.approx((0.3 + 2.0) / 2)
    assert objective.siblings == 1


def test_goal_metrics_look_at_the_last_valid_state():
    short = episode([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.0]], GOALS[1], length=1)
    metrics = goal_metrics(jax.tree.map(lambda x: x[None], short))
    assert metrics["goal_success"] == 1.0
    assert metrics["goal_distance"] == 0.0


def test_rivals_are_siblings_whose_critic_sees_the_normalised_antigoal():
    objective = edl_objective(SKILLS, Euclidean(), RIVALS)
    rivals = episode([[0.0, 0.0], [1.0, 0.0]], GOALS[1], rival=[1.6, 0.3])
    assert objective.siblings == 2
    np.testing.assert_allclose(objective.privileged(None, rivals), [1.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(objective.reward(None, rivals), [-1.0 + np.hypot(0.6, 0.3)], rtol=1e-5)
    assert objective.weight(None, rivals) == 1.0


def test_skills_are_drawn_from_the_model():
    objective = edl_objective(SKILLS, Euclidean(), PLAIN)
    drawn = jax.vmap(lambda key: objective.sample(key, None))(jax.random.split(jax.random.key(0), 200))
    np.testing.assert_array_equal(drawn.goal, GOALS[drawn.index])
    assert 60 < jnp.sum(drawn.index) < 140


def test_stops_when_goals_are_reached(learned):
    _, metrics = learned
    assert not metrics["done"].any()  # neither got as far as that
    assert 0.5 < PLAIN.stop_at < 1.0 < paper().stop_at


def test_the_recipe_of_the_paper():
    recipe = paper()
    assert (recipe.reward, recipe.distance, recipe.rivalry) == ("shipped", "euclidean", True)
    assert (recipe.ppo.gamma, recipe.ppo.bootstrap) == (1.0, False)
    assert recipe.ppo.iterations * recipe.ppo.rollouts * 2 * 50 == 12_500_000
    assert isinstance(measure(jax.random.key(0), None, recipe), Euclidean)

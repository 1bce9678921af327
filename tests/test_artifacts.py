"""The artifacts that the stages hand over."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import PosteriorPick, SkillModel, SkillPolicy, empty_experience, goals_of, pick_rule_of
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, identity_normaliser

SCALE = Normaliser(jnp.array([1.0, -1.0]), jnp.array([2.0, 0.5]))
KEY = jax.random.key(0)


def linear(matrix):
    """x -> x @ matrix."""
    return MLP([jnp.asarray(matrix, jnp.float32)], [jnp.zeros(len(matrix[0]))])


def model(**changes):
    """z_e(s) = 2 x and D(z) = z / 2 on normalised states x, with three codes; ``goals`` differ from ``decoded``."""
    codes = jnp.array([[0.0, 0.0], [4.0, 0.0], [0.0, -4.0]])
    parts = {
        "codes": codes,
        "goals": jnp.array([[1.0, -1.0], [5.1, -1.0], [1.0, -2.1]]),
        "decoded": jnp.array([[1.0, -1.0], [5.0, -1.0], [1.0, -2.0]]),
        "usage": jnp.array([0.5, 0.25, 0.25]),
        "encoder": linear([[2.0, 0.0], [0.0, 2.0]]),
        "decoder": linear([[0.5, 0.0], [0.0, 0.5]]),
        "normaliser": SCALE,
    }
    return SkillModel(**(parts | changes))


def test_encoding_and_decoding_work_on_normalised_states():
    np.testing.assert_allclose(model().encode(jnp.array([5.0, -0.5])), [4.0, 2.0])
    np.testing.assert_allclose(model().decode(jnp.array([4.0, 2.0])), [5.0, -0.5])
    np.testing.assert_allclose(jax.vmap(model().decode)(model().codes), model().decoded)


def test_a_state_is_assigned_to_the_nearest_code():
    states = jnp.array([[1.2, -1.0], [4.0, -1.1], [1.0, -1.8]])
    np.testing.assert_array_equal(jax.vmap(model().assign)(states), [0, 1, 2])


def test_log_likelihood_is_gaussian_in_normalised_space():
    state, code = jnp.array([5.0, -0.5]), jnp.array([0.0, -4.0])
    x, mean = np.array([2.0, 1.0]), np.array([0.0, -2.0])
    assert model().log_likelihood(state, code) == pytest.approx(-0.5 * np.sum((x - mean) ** 2))
    at_own_goal = model().log_likelihood(model().decoded[2], code)
    assert at_own_goal == 0.0


def test_without_networks_codes_are_normalised_states():
    bare = model(encoder=None, decoder=None)
    np.testing.assert_allclose(bare.encode(jnp.array([5.0, -0.5])), [2.0, 1.0])
    np.testing.assert_allclose(bare.decode(jnp.array([2.0, 1.0])), [5.0, -0.5])
    assert bare.log_likelihood(jnp.array([5.0, -0.5]), jnp.array([2.0, 1.0])) == 0.0


def test_the_code_is_the_mean_if_the_encoder_also_computes_a_variance():
    wide = model(encoder=linear([[2.0, 0.0, 9.0, 9.0], [0.0, 2.0, 9.0, 9.0]]))
    np.testing.assert_allclose(wide.encode(jnp.array([5.0, -0.5])), [4.0, 2.0])


def test_discrete_skills_are_uniform_over_the_codebook():
    drawn = jax.jit(jax.vmap(model().sample))(jax.random.split(KEY, 3000))
    np.testing.assert_allclose(np.bincount(drawn.index) / 3000, 1 / 3, atol=0.04)
    np.testing.assert_array_equal(drawn.code, model().codes[drawn.index])
    np.testing.assert_array_equal(drawn.goal, model().goals[drawn.index])
    assert model().num_skills == 3


def test_continuous_skills_are_normal_and_their_goals_are_decoded():
    drawn = jax.jit(jax.vmap(model(continuous=True).sample))(jax.random.split(KEY, 3000))
    np.testing.assert_allclose(jnp.mean(drawn.code, axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(jnp.std(drawn.code, axis=0), 1.0, atol=0.05)
    np.testing.assert_allclose(drawn.goal, jax.vmap(model().decode)(drawn.code), rtol=1e-5, atol=1e-5)
    assert set(np.asarray(drawn.index)) == {-1}


def test_a_policy_acts_on_the_normalised_observation_and_the_code():
    actor = linear([[1.0, 0.0], [0.0, 1.0], [10.0, 20.0]])
    policy = SkillPolicy(actor, SCALE, Categorical(2), jnp.ones((1, 1)))
    np.testing.assert_allclose(policy(jnp.array([5.0, -0.5]), jnp.array([1.0])), [12.0, 21.0])
    assert policy.mode(jnp.array([5.0, -0.5]), jnp.array([1.0])) == 1
    assert policy.act(KEY, jnp.array([5.0, -0.5]), jnp.array([1.0])) == 1


def test_the_goals_and_the_rule_of_a_run_are_those_of_its_skills_if_it_has_stages():
    policy = SkillPolicy(linear([[1.0]]), SCALE, Categorical(2), jnp.ones((1, 1)), jnp.zeros((1, 2)))
    assert goals_of(policy, None) is policy.goals
    assert pick_rule_of(policy, None) is None
    ruled = eqx.tree_at(lambda p: p.pick, policy, PosteriorPick(model()), is_leaf=lambda leaf: leaf is None)
    assert pick_rule_of(ruled, None) is ruled.pick
    skills = model()
    assert goals_of(ruled, skills) is skills.goals
    assert pick_rule_of(policy, skills).skills is skills
    shapes = jax.eval_shape(lambda: (policy, skills))
    assert goals_of(*shapes).shape == (3, 2)


def test_every_leaf_of_an_artifact_is_an_array():
    distribution = action_distribution(maze("square").action_space)
    policy = SkillPolicy(mlp(KEY, (3, 4)), identity_normaliser(2), distribution, jnp.ones((1, 1)))
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves((model(), policy)))


def test_empty_experience_has_the_shapes_of_the_env():
    walk, grid = empty_experience(maze("square", horizon=7), 5), empty_experience(gridworld(3, 3, 4), 2)
    assert (walk.paths.shape, walk.actions.shape) == ((5, 8, 2), (5, 7, 2))
    assert (grid.paths.shape, grid.actions.shape, grid.actions.dtype) == ((2, 5, 2), (2, 4), jnp.int32)
    assert not jnp.any(walk.lengths)

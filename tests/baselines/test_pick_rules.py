"""How each method picks a skill for a state: every rule by hand on a tiny model, and every method has its rule."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl import baselines
from edl.artifacts import PosteriorPick, SkillModel, TargetAsGoal
from edl.baselines.aps import ModeWithBonus
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.fb import Backward
from edl.baselines.pick_rules import MostLikelySkill, NearestMean
from edl.baselines.rsd import PointInMap
from edl.baselines.snn4hrl import NearestVisitedCell, SNN4HRLConfig, cell_index, nearest_visited_cell
from edl.baselines.vic import MostLikelyEnd
from edl.baselines.visr import ModeOfPosterior
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser
from tests.laws.cases import ENV, RECORDED, quick_first, shrink

RULES = {
    "reverse_mi": MostLikelySkill,
    "forward_mi": NearestMean,
    "diayn": MostLikelySkill,
    "dads": type(None),
    "metra": DirectionOfTarget,
    "vic": MostLikelyEnd,
    "snn4hrl": NearestVisitedCell,
    "valor": type(None),
    "visr": ModeOfPosterior,
    "discern": TargetAsGoal,
    "skewfit": TargetAsGoal,
    "metra_ppo": DirectionOfTarget,
    "lsd": DirectionOfTarget,
    "csd": DirectionOfTarget,
    "csf": DirectionOfTarget,
    "apt": type(None),
    "cic": type(None),
    "aps": ModeWithBonus,
    "becl": type(None),
    "disco_dance": MostLikelySkill,
    "rsd": PointInMap,
    "hilp": DirectionOfTarget,
    "fb": Backward,
    "map_elites": NearestMean,
}


def test_the_table_of_rules_has_every_method_once():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text("utf-8")
    rows = page[page.index("| rule | methods |") :].split("\n\n")[0].splitlines()[2:]
    listed = [re.findall(r"`(\w+)`", row.split(" | ")[1]) for row in rows]
    assert sorted(name for names in listed for name in names) == sorted([*RULES, "edl"])
    for names in listed:
        assert len({getattr(RULES.get(name), "rule", None) for name in names}) == 1, names
    [practice] = [names for row, names in zip(rows, listed, strict=True) if "practice episodes" in row]
    assert set(practice) == {name for name, rule in RULES.items() if rule is type(None)}


def linear(matrix) -> MLP:
    """x -> x @ matrix."""
    return MLP([jnp.asarray(matrix, jnp.float32)], [jnp.zeros(len(matrix[0]))])


def picks(rule, *targets):
    return [np.asarray(rule(jnp.array(target))).tolist() for target in targets]


@pytest.mark.parametrize("name", quick_first(baselines.METHODS))
def test_every_method_has_its_rule(name):
    method = baselines.METHODS[name]
    inputs = (ENV, RECORDED) if method.offline else (ENV,)
    program = method.build(*inputs, shrink(method.config()))
    policy = jax.eval_shape(lambda key: program.finish(program.init(key)), jax.random.key(0))
    assert isinstance(policy.pick, RULES[name])
    if policy.pick is None:
        return
    picked = jax.eval_shape(lambda rule, x: rule(x), policy.pick, jnp.zeros(2))
    assert picked.shape in ((), policy.codes.shape[1:])
    assert jnp.issubdtype(picked.dtype, jnp.integer if picked.ndim == 0 else jnp.floating)
    assert len(policy.pick.rule) > 3


def test_a_posterior_picks_the_most_likely_skill():
    # The logits are x, y and -x - y.
    rule = MostLikelySkill(linear([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]))
    assert picks(rule, [2.0, 1.0], [1.0, 2.0], [-1.0, -1.0]) == [0, 1, 2]


def test_a_density_picks_the_nearest_mean():
    rule = NearestMean(jnp.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]))
    assert picks(rule, [1.9, 0.0], [2.1, 0.0], [-3.0, 3.0]) == [0, 1, 2]


def test_a_goal_conditioned_policy_is_told_the_target():
    assert picks(TargetAsGoal(), [1.5, -2.0]) == [[1.5, -2.0]]


def test_vic_averages_its_posterior_over_start_states():
    # The logit of skill 1 is 2 x (s_0 + x), that of skill 0 is 0: the first start prefers skill 1 for x > 1, the second
    # for x > -3. Mean probabilities of skill 1 at x = -0.5: (sigmoid(-3) + sigmoid(5)) / 2 = 0.52.
    classifier = linear([[0.0, 2.0], [0.0, 2.0]])
    rule = MostLikelyEnd(classifier, jnp.array([[-1.0], [3.0]]))
    assert picks(rule, [-0.5], [-2.9], [2.0]) == [1, 0, 1]
    assert picks(MostLikelyEnd(classifier, jnp.array([[-1.0]])), [-0.5], [2.0]) == [0, 1]


def test_metra_goes_in_the_direction_of_the_target():
    phi = linear([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    discrete = DirectionOfTarget(phi, jnp.array([2.0, 0.0, 0.0]), True)
    # phi(x) - phi(s_0) is (-2 + x, y, y / 2).
    assert picks(discrete, [3.0, 0.5], [1.0, 0.5], [1.0, -3.0]) == [0, 1, 0]
    assert picks(discrete, [-9.0, -3.0]) == [2]
    plane = linear([[1.0, 0.0], [0.0, 1.0]])
    continuous = DirectionOfTarget(plane, jnp.array([1.0, 1.0]), False)
    np.testing.assert_allclose(picks(continuous, [4.0, 5.0], [1.0, -2.0]), [[0.6, 0.8], [0.0, -1.0]], atol=1e-6)


def test_visr_plays_the_features_of_the_target():
    rule = ModeOfPosterior(linear([[1.0, 0.0], [0.0, 2.0]]))
    np.testing.assert_allclose(picks(rule, [3.0, 2.0]), [[0.6, 0.8]], atol=1e-6)


def test_snn4hrl_asks_the_nearest_visited_cell():
    config = SNN4HRLConfig(num_skills=3, mesh_density=2.0, cells=8)  # cells of side 0.5, in a grid of 4 x 4 units
    counts = jnp.zeros((64, 3))
    counts = counts.at[cell_index(jnp.array([0.1, 0.1]), 2.0, 8)].set(jnp.array([1.0, 4.0, 2.0]))
    counts = counts.at[cell_index(jnp.array([1.6, 0.1]), 2.0, 8)].set(jnp.array([0.0, 0.0, 1.0]))
    counts = counts.at[cell_index(jnp.array([-0.4, -1.9]), 2.0, 8)].set(jnp.array([5.0, 0.0, 1.0]))
    rule = nearest_visited_cell(counts, config)
    # In a visited cell; nearer to the first or to the second one; in the third one, and below it, as the grid wraps.
    assert picks(rule, [0.2, 0.3], [0.8, 0.2], [1.2, 0.2], [-0.1, -1.6], [-0.1, 1.9]) == [1, 1, 2, 0, 0]


def test_edl_picks_by_its_encoder():
    codes = jnp.array([[0.0], [2.0], [4.0]])
    scale = Normaliser(jnp.array([1.0]), jnp.array([2.0]))
    parts = (codes, codes, codes, jnp.full(3, 1 / 3), linear([[2.0]]), None, scale)
    # z_e(s) = 2 (s - 1) / 2 = s - 1.
    assert picks(PosteriorPick(SkillModel(*parts)), [1.9], [2.1], [9.0]) == [0, 1, 2]
    assert picks(PosteriorPick(SkillModel(*parts, continuous=True)), [1.9], [9.0]) == [[pytest.approx(0.9)], [8.0]]

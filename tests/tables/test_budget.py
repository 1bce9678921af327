"""Every method gets the same environment steps."""

import pytest

from edl.baselines import METHODS
from edl.config import ConfigError
from edl.envs.maze import HORIZON
from edl.tables import TableSettings
from edl.tables.budget import (
    SAC_ROLLOUTS,
    SAC_UPDATE_EVERY,
    budget,
    budgeted,
    configured_steps,
    stage_steps,
    with_budget,
)
from edl.tables.table import BASELINES, COMPARED, EDL, EDL_ORACLE, TLDR, last_stage
from tests.laws.cases import quick_first

SETTINGS = TableSettings()
OFFLINE = [name for name, method in METHODS.items() if method.offline]


def test_the_budget_is_what_edl_is_configured_for():
    explored, oracle = (SETTINGS.config("square", method) for method in (EDL, EDL_ORACLE))
    frontier = explored.explorer.iterations * explored.explorer.rollouts * HORIZON
    learning = explored.learner.ppo.iterations * explored.learner.ppo.rollouts * HORIZON
    assert stage_steps(explored)["explore"] == frontier
    assert stage_steps(oracle)["scout"] > 0
    assert budget(SETTINGS) == max(configured_steps(explored), configured_steps(oracle)) >= frontier + learning
    assert budget(SETTINGS._replace(steps=123)) == 123


@pytest.mark.parametrize("method", quick_first(COMPARED))
def test_every_method_uses_the_budget_up_to_one_iteration(method):
    steps = budget(SETTINGS)
    config = budgeted(SETTINGS, "bottleneck", method, steps)
    taken = configured_steps(config, last_stage(method))
    if method in OFFLINE:
        assert taken == stage_steps(budgeted(SETTINGS, "bottleneck", EDL, steps))["explore"]
    else:
        assert steps - SAC_ROLLOUTS * HORIZON < taken <= steps


@pytest.mark.parametrize("method", quick_first(BASELINES))
def test_methods_with_sac_have_a_moderate_update_ratio(method):
    learner = getattr(budgeted(SETTINGS, "square", method, 1_000_000).baseline, "sac", None)
    if learner is not None:
        assert 1 / 32 <= learner.gradient_steps / learner.update_every <= 1 / 16
        assert learner.update_every == SAC_UPDATE_EVERY
        assert learner.capacity >= 10 * learner.rollouts * HORIZON


def test_a_smaller_budget_shortens_edl_and_a_larger_one_does_not_lengthen_it():
    base = SETTINGS.config("tree")
    assert configured_steps(with_budget(base, 1_000_000)) <= 1_000_000
    assert with_budget(base, 10**9) == base
    with pytest.raises(ConfigError, match="steps must be more than the 100000 steps"):
        with_budget(base, 50_000)


def test_tldr_has_the_replay_of_sac_and_its_policy_is_that_of_the_first_stage():
    config = budgeted(SETTINGS, "square", TLDR, 1_000_000)
    assert (config.method, config.explore, last_stage(TLDR)) == (EDL, "tldr", "explore")
    assert config.explorer.rollouts == SAC_ROLLOUTS
    assert config.explorer.update_every == SAC_UPDATE_EVERY
    assert config.explorer.iterations == 1_000_000 // (SAC_ROLLOUTS * HORIZON)

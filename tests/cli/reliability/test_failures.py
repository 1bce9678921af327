"""One diverged seed does not discard the others: it is marked with the place where it failed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.artifacts import States
from edl.cli.console import new_console
from edl.cli.summary import print_summary
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig, kmeans
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.region import parse_region
from edl.program import Method
from edl.runs import failures, result, session
from edl.runs.checking import check_run
from edl.runs.config import RunConfig
from edl.runs.evaluation import draw_run, reevaluate
from edl.runs.pipeline import STAGES

SETTINGS = {
    "explore": "random_walk",
    "explorer": RandomWalkConfig(iterations=3, rollouts=2, num_samples=16),
    "discover": "sometimes_nan",
    "num_skills": 2,
    "until": "discover",
}


def sometimes_nan(states, config):
    """k-means that diverges for one seed, which is known by its first state."""
    program = kmeans(states, config)

    def finish(state):
        bad = jnp.abs(states.samples[0, 0] - DIVERGES.x) < 1e-6
        return jax.tree.map(
            lambda x: jnp.where(bad, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x, program.finish(state)
        )

    return dataclasses.replace(program, finish=finish)


class DIVERGES:
    """The first coordinate of the first state of the seed that diverges."""

    x = 0.0


@pytest.fixture(scope="module")
def three_seeds(tmp_path_factory):
    """A run of three seeds, of which the second fails in stage 2."""
    patch = pytest.MonkeyPatch()
    patch.setitem(edl.discover.METHODS, "sometimes_nan", Method(KMeansConfig, sometimes_nan))
    states = edl.run("square", num_seeds=3, **{**SETTINGS, "discover": "kmeans", "until": "explore"}).states
    DIVERGES.x = float(states.samples[1, 0, 0])
    out = tmp_path_factory.mktemp("failures") / "run"
    yield edl.run("square", out=out, num_seeds=3, **SETTINGS)
    patch.undo()


def test_the_good_seeds_are_kept_and_the_bad_one_is_marked(three_seeds, capsys):
    loaded = edl.load(three_seeds.path)
    whole = edl.run("square", num_seeds=3, **{**SETTINGS, "discover": "kmeans"})
    for run in (three_seeds, loaded):
        assert list(run.failed) == [1]
        assert run.failed[1].startswith("stage 'discover': NaN or infinity in '")
        assert np.isnan(run.skills.goals[1]).all()
        for i in (0, 2):
            np.testing.assert_array_equal(run.skills.goals[i], whole.skills.goals[i])
        with pytest.raises(ConfigError, match="seed 1 failed in stage 'discover'"):
            run.seed(1)
        assert run.seed(2).skills.goals.shape == (2, 2)
    first, second, third = loaded.metrics["per_seed"]
    assert {name: value for name, value in second.items() if value is not None} == {
        "seed": 1,
        "failed": loaded.failed[1],
    }
    assert "data_coverage" in second
    mean = loaded.metrics["aggregate"]["data_coverage"]["mean"]
    assert mean == pytest.approx((first["data_coverage"] + third["data_coverage"]) / 2)
    assert "failed" not in first
    print_summary(new_console(), result.load(three_seeds.path))
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 of 3 seeds failed and are left out of the metrics. seed 1: stage 'discover'" in printed
    assert not check_run(three_seeds.path).bad


def test_evaluating_again_gives_the_same(three_seeds):
    run, _ = reevaluate(three_seeds.path)
    assert run.metrics["per_seed"] == edl.load(three_seeds.path).metrics["per_seed"]


def test_figures_show_the_first_good_seed(three_seeds):
    assert set(edl.load(three_seeds.path).seeds[2].plot().axes[0].get_title()) is not None
    loaded = result.load(three_seeds.path)
    without_first = dataclasses.replace(loaded, failed={0: "stage 'discover': why", **loaded.failed})
    assert {"states", "assignments", "usage"} <= set(draw_run(without_first))
    with pytest.raises(ConfigError, match="seed 1 failed in stage 'discover'"):
        edl.load(three_seeds.path).seeds[1].plot()


def test_a_seed_that_its_stage_rejects_is_blank_in_that_stage(monkeypatch):
    failed = {0: "stage 'explore': never entered the region"}
    monkeypatch.setattr(session, "failed_seeds", lambda *_: failed)
    run = edl.run("square", num_seeds=2, **{**SETTINGS, "discover": "kmeans", "until": "explore"})
    assert [bool(np.isnan(each).any()) for each in run.states.samples] == [True, False]


def test_if_all_seeds_fail_the_run_fails(three_seeds, tmp_path):
    with pytest.raises(ConfigError, match="the result of stage 'discover' has NaN or infinity in"):
        edl.run("square", seed=1, out=tmp_path / "run", **SETTINGS)


def test_a_seed_that_never_entered_the_region_fails_alone():
    region = parse_region("x > 0", 2)
    stage, config = STAGES[0], RunConfig(explore="random_walk", region=region, num_seeds=2)
    samples = np.ones((2, 4, 2), np.float32)
    samples[1] *= -1
    found = failures.failed_seeds(stage, config, States(jnp.asarray(samples)), [])
    assert list(found) == [1]
    assert "seed 1 of explore=random_walk never entered the region x > 0" in found[1]


def test_the_place_is_the_last_good_row_of_the_log():
    losses = {10: 0.5, 20: 0.5, 30: float("nan"), 40: float("nan")}
    rows = [{"stage": "learn", "iteration": i, "loss": [0.0, loss]} for i, loss in losses.items()]
    assert failures._diverged_at(rows, "learn", 1) == 20
    assert failures._diverged_at(rows, "learn", 0) is None


def test_later_stages_compute_with_a_good_seed_and_drop_the_result():
    tree = {"x": np.arange(6.0).reshape(3, 2), "n": np.arange(3)}
    np.testing.assert_array_equal(failures.repaired(tree, {0: "why"}, 3)["x"], [[2, 3], [2, 3], [4, 5]])
    blank = failures.blanked(tree, [1])
    np.testing.assert_array_equal(np.isnan(blank["x"]).all(axis=1), [False, True, False])
    np.testing.assert_array_equal(blank["n"], tree["n"])

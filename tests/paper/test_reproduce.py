"""A reproduction from beginning to end, of runs so small that they learn nothing."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

from edl.cli import main
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.runs import run as running
from edl.paper import FIGURES
from edl.paper.recipes import Grid
from edl.paper.reproduce import expand, reproduce
from edl.runs.result import load
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig

PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))


def tiny(config):
    """Other explorers and discoverers than the paper's, which would take minutes."""
    if config.method != "edl":
        return dataclasses.replace(config, num_skills=3, baseline=dataclasses.replace(config.baseline, ppo=PPO))
    return dataclasses.replace(
        config,
        num_skills=3,
        explore="random_walk",
        explorer=RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
        discover="kmeans",
        discoverer=KMeansConfig(),
        learner=LearnConfig(distance="euclidean", ppo=PPO),
    )


GRID = Grid("fast", 2, 0, tiny)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, reproduce(["fig_gridworld", "fig_corridor"], out, GRID)


@pytest.mark.slow
def test_what_a_figure_leaves(made):
    out, records = made
    for record in records:
        name = record["figure"]
        assert json.loads((out / f"{name}.json").read_text()) == record
        assert record["title"] == FIGURES[name].title
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (out / f"{name}.svg").read_bytes()
        for verdict in record["verdicts"]:
            assert isinstance(verdict["holds"], bool)
            assert verdict["claim"].endswith(".")
    assert records[1]["num_seeds"] == 2
    assert records[1]["verdicts"][0]["seeds"] == 2
    assert len(records[1]["numbers"]["distance"]["Forward MI"]["transport"]) == 2
    page = (out / "index.html").read_text()
    assert page.count("<section") == 2
    assert all(f'src="{record["figure"]}.png"' in page for record in records)


@pytest.mark.slow
def test_skills_are_taken_to_another_corridor(made):
    out, records = made
    here, there = (load(out / records[1]["runs"][name]) for name in ("center_center", "center_left"))
    moved = np.asarray(here.skills.goals) + np.array([5.0, 0.0])
    np.testing.assert_allclose(there.skills.goals, moved, atol=1e-5)
    np.testing.assert_array_equal(there.skills.codes, here.skills.codes)
    state = jnp.array([1.0, 0.2])
    one, other = here.seed(1).skills, there.seed(1).skills
    assert int(one.assign(state)) == int(other.assign(state + jnp.array([5.0, 0.0])))
    assert there.config.env == "corridor_left"


@pytest.mark.slow
def test_what_is_finished_is_not_made_again(made, monkeypatch):
    out, records = made

    def refuse(*args, **settings):
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(running, "work", refuse)
    assert reproduce(["fig_corridor"], out, GRID) == records[1:]
    (out / "fig_corridor.json").unlink()  # stopped between the runs and the figure
    again = reproduce(["fig_corridor"], out, GRID)
    assert again[0]["numbers"]["distance"] == records[1]["numbers"]["distance"]
    assert again[0]["key"] == records[1]["key"]


def test_a_figure_without_runs_is_made_once_and_judged(tmp_path, monkeypatch):
    record = reproduce(["fig_gridworld"], tmp_path, GRID)[0]
    assert json.loads((tmp_path / "fig_gridworld.json").read_text()) == record
    assert (tmp_path / "fig_gridworld.png").read_bytes().startswith(b"\x89PNG")
    assert [verdict["holds"] for verdict in record["verdicts"]] == [True, True]
    assert b"fig_gridworld" in (tmp_path / "index.html").read_bytes()
    monkeypatch.setattr("edl.paper.reproduce.publish", lambda *_: pytest.fail("made again"))
    assert reproduce(["fig_gridworld"], tmp_path, GRID)[0] == record


def test_figures_share_runs():
    grid = Grid("fast", 1)
    keys = [recipe.key for name in FIGURES for recipe in FIGURES[name].recipes(grid).values()]
    assert len(keys) > len(set(keys))
    bottleneck = {recipe.key for recipe in FIGURES["fig_bottleneck"].recipes(grid).values()}
    for name in ("fig_interpolation", "fig_goals", "fig_landscapes"):
        assert {recipe.key for recipe in FIGURES[name].recipes(grid).values()} <= bottleneck
    other = {recipe.key for recipe in FIGURES["fig_bottleneck"].recipes(grid._replace(num_seeds=2)).values()}
    assert not bottleneck & other


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_every_recipe_is_a_config_that_can_be_run(preset):
    for figure in FIGURES.values():
        for recipe in figure.recipes(Grid(preset, 3)).values():
            assert (recipe.config.preset, recipe.config.num_seeds, recipe.config.num_skills) == (preset, 3, 10)


def test_names(capsys, tmp_path):
    assert expand(["all"]) == list(FIGURES)
    assert expand(["fig_smm", "fig_smm"]) == ["fig_smm"]
    with pytest.raises(ConfigError, match="did you mean 'fig_corridor'"):
        expand(["fig_coridor"])
    assert main(["reproduce", "fig_coridor", "--out", str(tmp_path / "results")]) == 2
    assert not (tmp_path / "results").exists()
    assert main(["reproduce", "fig_gridworld", "--num-seeds", "1", "--out", str(tmp_path / "results")]) == 0
    assert "index.html" in capsys.readouterr().out

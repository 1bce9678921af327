"""A reproduction from beginning to end, with runs so small that they learn nothing."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.paper import FIGURES, run_cache
from edl.paper.recipes import ReproductionConfig
from edl.paper.reproduce import expand, reproduce
from edl.rl.ppo import PPOConfig
from edl.runs.result import load
from edl.runs.session import read_progress
from edl.runs.store import CONFIG, Folder

PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))


def tiny(config):
    """The same run with a faster explorer and discoverer: the paper's would take minutes."""
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


SETTINGS = ReproductionConfig("fast", 2, 0, tiny)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, reproduce(["fig_gridworld", "fig_corridor"], out, SETTINGS)


@pytest.mark.slow
def test_the_files_of_a_figure(finished):
    out, records = finished
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
def test_skills_are_imported_into_another_corridor(finished):
    out, records = finished
    source, imported = (load(out / records[1]["runs"][name]) for name in ("center_center", "center_left"))
    offset = np.array([5.0, 0.0])
    np.testing.assert_allclose(imported.skills.goals, np.asarray(source.skills.goals) + offset, atol=1e-5)
    np.testing.assert_array_equal(imported.skills.codes, source.skills.codes)
    state = jnp.array([1.0, 0.2])
    in_source, in_imported = source.seed(1).skills, imported.seed(1).skills
    assert int(in_source.assign(state)) == int(in_imported.assign(state + jnp.asarray(offset)))
    assert imported.config.env == "corridor_left"


@pytest.mark.slow
def test_an_interrupted_import_starts_again(finished, tmp_path):
    out, records = finished
    recipe = FIGURES["fig_corridor"].define_runs(SETTINGS)["center_left"]
    folder = Folder(tmp_path / recipe.folder)
    folder.path.mkdir()
    (folder.path / CONFIG).write_text("{}")  # the import was interrupted after it wrote its first file
    source = load(out / records[1]["runs"]["center_center"])
    for _ in range(2):
        run_cache.import_skills(source, recipe, folder)
        assert set(read_progress(folder)) == {"explore", "discover"}


@pytest.mark.slow
def test_finished_runs_and_figures_are_kept(finished, monkeypatch):
    out, records = finished

    def fail(*args, **settings):
        raise AssertionError("a finished run was executed again")

    monkeypatch.setattr(run_cache, "execute_run", fail)
    assert reproduce(["fig_corridor"], out, SETTINGS) == records[1:]
    (out / "fig_corridor.json").unlink()  # as if it was stopped after the runs and before the figure
    again = reproduce(["fig_corridor"], out, SETTINGS)
    assert again[0]["numbers"]["distance"] == records[1]["numbers"]["distance"]
    assert again[0]["identity"] == records[1]["identity"]


def test_a_figure_without_runs_is_drawn_once_and_judged(tmp_path):
    record = reproduce(["fig_gridworld"], tmp_path, SETTINGS)[0]
    picture = tmp_path / "fig_gridworld.png"
    assert json.loads((tmp_path / "fig_gridworld.json").read_text()) == record
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [verdict["holds"] for verdict in record["verdicts"]] == [True, True]
    assert b"fig_gridworld" in (tmp_path / "index.html").read_bytes()
    written = picture.stat().st_mtime_ns
    assert reproduce(["fig_gridworld"], tmp_path, SETTINGS)[0] == record
    assert picture.stat().st_mtime_ns == written
    reproduce(["fig_gridworld"], tmp_path, SETTINGS, redraw=True)
    assert picture.stat().st_mtime_ns > written


def identities(name, settings):
    return {recipe.identity for recipe in FIGURES[name].define_runs(settings).values()}


def test_figures_share_runs(monkeypatch):
    settings = ReproductionConfig("fast", 1)
    every = [recipe.identity for figure in FIGURES.values() for recipe in figure.define_runs(settings).values()]
    assert len(every) > len(set(every))
    bottleneck = identities("fig_bottleneck", settings)
    for name in ("fig_interpolation", "fig_goals", "fig_landscapes"):
        assert identities(name, settings) <= bottleneck
    assert not bottleneck & identities("fig_bottleneck", settings._replace(num_seeds=2))
    monkeypatch.setattr(edl, "__version__", "another")
    assert not bottleneck & identities("fig_bottleneck", settings)


def test_imported_skills_have_their_own_identity():
    runs = FIGURES["fig_corridor"].define_runs(ReproductionConfig("fast", 1))
    imported, own = runs["left_center"], runs["center_center"]
    assert imported.config == own.config
    assert imported.identity != own.identity


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_every_recipe_has_a_valid_config(preset):
    for figure in FIGURES.values():
        for recipe in figure.define_runs(ReproductionConfig(preset, 3)).values():
            assert (recipe.config.preset, recipe.config.num_seeds, recipe.config.num_skills) == (preset, 3, 10)


def test_names(capsys, tmp_path):
    assert expand(["all"]) == list(FIGURES)
    assert expand(["fig_smm", "fig_smm"]) == ["fig_smm"]
    with pytest.raises(ConfigError, match=r"unknown figure 'fig_coridor'\. Did you mean 'fig_corridor'\?"):
        expand(["fig_coridor"])
    assert main(["reproduce", "fig_coridor", "--out", str(tmp_path / "results")]) == 2
    assert not (tmp_path / "results").exists()
    assert main(["reproduce", "fig_gridworld", "--num-seeds", "1", "--out", str(tmp_path / "results")]) == 0
    assert "index.html" in capsys.readouterr().out

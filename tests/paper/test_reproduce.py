"""A reproduction from beginning to end, with runs so small that they learn nothing."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.baselines.reverse_mi import ReverseMIConfig
from edl.cli import main
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.paper import FIGURES, run_cache
from edl.paper.progress import SilentReproduction
from edl.paper.recipes import ReproductionConfig
from edl.paper.reproduce import INDEX, TABLE, expand, file_name, reproduce
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
            assert verdict["holds"] == (verdict["outcome"] == "holds")
            assert verdict["effects"]
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
    assert b"fig_gridworld" in (tmp_path / INDEX).read_bytes()
    assert "`fig_gridworld`" in (tmp_path / TABLE).read_text()
    written = picture.stat().st_mtime_ns
    assert reproduce(["fig_gridworld"], tmp_path, SETTINGS)[0] == record
    assert picture.stat().st_mtime_ns == written
    reproduce(["fig_gridworld"], tmp_path, SETTINGS, redraw=True)
    assert picture.stat().st_mtime_ns > written


def test_the_figures_of_both_presets_are_side_by_side(tmp_path):
    for preset in ("fast", "paper"):
        reproduce(["fig_gridworld"], tmp_path, ReproductionConfig(preset, 2))
    page, table = ((tmp_path / name).read_text() for name in (INDEX, TABLE))
    assert 'src="fig_gridworld.png"' in page
    assert 'src="paper/fig_gridworld.png"' in page
    assert page.count("<section") == 1
    assert "| figure | whose | claim and test | fast | paper |" in table
    assert table.count("Both forms of the mutual information") == 1  # one row per claim
    assert (tmp_path / "paper" / "fig_gridworld.json").exists()
    assert not (tmp_path / "paper" / INDEX).exists()


def test_figures_of_an_older_format_are_built_again(tmp_path):
    record = reproduce(["fig_gridworld"], tmp_path, SETTINGS)[0]
    old = {key: value for key, value in record.items() if key != "format"} | {"identity": "of another version"}
    (tmp_path / "fig_gridworld.json").write_text(json.dumps(old))
    assert reproduce(["fig_gridworld"], tmp_path, SETTINGS)[0]["identity"] == record["identity"]


TINY_RUNS = (("edl", "bottleneck"), ("edl", "square"), ("reverse_mi", "bottleneck"))


@pytest.fixture(scope="module")
def tiny_runs(tmp_path_factory):
    """Two runs of EDL and one of a baseline, which take the places of all runs."""
    recipes = {case: SETTINGS.recipe("tiny", case[1], method=case[0]) for case in TINY_RUNS}
    cache = run_cache.RunCache(tmp_path_factory.mktemp("runs"), list(recipes.values()), SilentReproduction())
    return {case: cache.get(recipe) for case, recipe in recipes.items()}


class Messages(SilentReproduction):
    """Keeps the messages of a reproduction."""

    def __init__(self):
        self.texts = []

    def message(self, text):
        self.texts.append(text)


@pytest.mark.slow
def test_on_an_accelerator_runs_with_the_same_program_are_executed_together(tmp_path, monkeypatch):
    faster = ReverseMIConfig(learning_rate=0.01)
    runs = [
        SETTINGS.recipe("center", "corridor_center", method="reverse_mi"),
        SETTINGS.recipe("left", "corridor_left", method="reverse_mi"),
        SETTINGS.recipe("faster", "corridor_left", method="reverse_mi", baseline=faster),
    ]
    other = SETTINGS.recipe("other", "corridor_left", method="forward_mi")
    imported = dataclasses.replace(runs[1], source=other)
    assert run_cache.groups_of([*runs, other]) == [[each] for each in (*runs, other)]
    alone = run_cache.RunCache(tmp_path / "alone", runs, SilentReproduction())
    expected = [alone.get(each) for each in runs]
    monkeypatch.setattr(run_cache.jax, "default_backend", lambda: "gpu")
    assert run_cache.groups_of([*runs, other, imported]) == [runs, [other], [imported]]
    progress = Messages()
    together = run_cache.RunCache(tmp_path / "together", runs, progress)
    for recipe, run in zip(runs, expected, strict=True):
        found = together.get(recipe)
        assert found.metrics["steps"] == run.metrics["steps"]
        for one, same in zip(jax.tree.leaves(found.policy), jax.tree.leaves(run.policy), strict=True):
            np.testing.assert_allclose(one, same, atol=1e-4)
    assert len(progress.texts) == 1
    assert progress.texts[0].startswith("runs 1, 2, 3 of 3 took ")
    assert progress.texts[0].endswith(" s: center; left; faster")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIGURES if name not in ("fig_gridworld", "fig_corridor")])
def test_every_figure_is_built_from_tiny_runs(name, tiny_runs):
    recipes = FIGURES[name].define_runs(SETTINGS)
    kinds = {label: (recipe.config.method, recipe.config.env) for label, recipe in recipes.items()}
    baseline, square = ("reverse_mi", "bottleneck"), ("edl", "square")
    chosen = {x: baseline if kind[0] != "edl" else kind if kind in TINY_RUNS else square for x, kind in kinds.items()}
    result = FIGURES[name].build({label: tiny_runs[kind] for label, kind in chosen.items()})
    assert len({file_name(name, part) for part in result.pictures}) == len(result.pictures)
    assert all(picture.caption.endswith(".") and picture.figure.axes for picture in result.pictures.values())
    assert result.verdicts
    json.dumps([[verdict.to_json() for verdict in result.verdicts], result.numbers], allow_nan=False)


@functools.cache
def recipes_of(name, preset):
    """The runs of a figure with three seeds. Several tests share them."""
    return FIGURES[name].define_runs(ReproductionConfig(preset, 3))


def identities(recipes):
    return {recipe.identity for recipe in recipes.values()}


def test_figures_share_runs(monkeypatch):
    every = [recipe.identity for name in FIGURES for recipe in recipes_of(name, "fast").values()]
    assert len(every) > len(set(every))
    bottleneck, define_runs = identities(recipes_of("fig_bottleneck", "fast")), FIGURES["fig_bottleneck"].define_runs
    for name in ("fig_interpolation", "fig_goals", "fig_landscapes"):
        assert identities(recipes_of(name, "fast")) <= bottleneck
    assert not bottleneck & identities(define_runs(ReproductionConfig("fast", 2)))
    monkeypatch.setattr(edl, "__version__", "another")
    assert not bottleneck & identities(define_runs(ReproductionConfig("fast", 3)))


def test_imported_skills_have_their_own_identity():
    runs = recipes_of("fig_corridor", "fast")
    imported, own = runs["left_center"], runs["center_center"]
    assert imported.config == own.config
    assert imported.identity != own.identity


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_every_recipe_has_a_valid_config(preset):
    for name in FIGURES:
        for recipe in recipes_of(name, preset).values():
            ours = recipe.config.learner is not None and recipe.config.learner.distance == "walking"
            assert recipe.config.preset == ("fast" if ours else preset)
            assert (recipe.config.num_seeds, recipe.config.num_skills) == (3, 10)


@pytest.mark.parametrize(("preset", "steps"), [("fast", 5_120_000), ("paper", 12_500_000)])
def test_all_learners_of_a_preset_get_the_same_number_of_steps(preset, steps):
    for name in FIGURES:
        for label, recipe in recipes_of(name, preset).items():
            settings = recipe.config.learner or recipe.config.baseline
            twice = getattr(settings, "rivalry", False) or getattr(settings, "separate_batch", False)
            episodes = settings.ppo.iterations * settings.ppo.rollouts * (2 if twice else 1)
            if label != "untrained" and recipe.config.preset == preset:
                assert 50 * episodes == steps, (name, label)


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_the_entropy_weights_of_the_paper_and_of_ours_are_both_run(preset):
    runs = recipes_of("fig_entropy", preset)
    weights = {(r.config.learner or r.config.baseline).ppo.entropy_weight for r in runs.values()}
    assert weights == {0.002, 0.025}
    shared = identities(recipes_of("fig_bottleneck", preset))
    default = {"fast": 0.002, "paper": 0.025}[preset]
    assert runs[f"reverse_mi_bottleneck_{default:g}"].identity in shared
    learners = [recipe.config.learner for recipe in runs.values() if recipe.config.learner is not None]
    assert len(learners) == 8
    assert all(learner.stop_at > 1.0 for learner in learners)  # none stops early


def test_claims_of_the_paper_are_tested_with_its_learner():
    for label, recipe in (recipes_of("fig_smm", "fast") | recipes_of("fig_tree_prior", "fast")).items():
        if recipe.config.learner is not None:
            walking = recipe.config.learner.distance == "walking"
            assert walking == label.endswith("walking")
            assert recipe.config.learner.rivalry != walking


def test_names(capsys, tmp_path):
    assert expand(["all"]) == list(FIGURES)
    assert expand(["fig_smm", "fig_smm"]) == ["fig_smm"]
    assert expand(["fig1", "fig2", "fig_smm"]) == ["fig_bottleneck", "fig_smm"]
    with pytest.raises(ConfigError, match=r"unknown figure 'fig_coridor'\. Did you mean 'fig_corridor'\?"):
        expand(["fig_coridor"])
    assert main(["reproduce", "fig_coridor", "--out", str(tmp_path / "results")]) == 2
    assert not (tmp_path / "results").exists()
    assert main(["reproduce", "fig_gridworld", "--num-seeds", "1", "--out", str(tmp_path / "results")]) == 0
    assert "index.html" in capsys.readouterr().out

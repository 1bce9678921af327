"""The files of docs/extending.md register an env, methods, a metric and a figure from outside the package, and run."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import edl
from edl import baselines, discover, envs, evaluate, explore, figures
from edl.runs.pipeline import stage_keys
from tests.doc_pages import DOCS, blocks

REGISTRIES = (
    envs.ENVS, explore.METHODS, discover.METHODS, baselines.METHODS, evaluate.METRICS, figures.FIGURES,
)  # fmt: skip


@contextlib.contextmanager
def registries_restored() -> Iterator[None]:
    """Remove everything that the page registers, because other tests iterate over the registries."""
    before = [dict(registry) for registry in REGISTRIES]
    try:
        yield
    finally:
        for registry, entries in zip(REGISTRIES, before, strict=True):
            registry.clear()
            registry.update(entries)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files of the page, from which they can be imported."""
    folder = tmp_path_factory.mktemp("extending")
    names = {block.file: block.text for block in blocks(DOCS / "extending.md") if block.file}
    for name, text in names.items():
        (folder / name).write_text(text)
    with registries_restored(), pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.chdir(folder)
        yield folder
    for name in names:
        sys.modules.pop(Path(name).stem, None)


@pytest.fixture(scope="module")
def use(folder: Path) -> ModuleType:
    """The page's script, which runs everything."""
    return importlib.import_module("use")


def test_registered_env_explorer_and_discoverer_run(use: ModuleType):
    run = use.run
    assert run.env.horizon == 10
    assert run.config.explore == "rays"
    assert run.skills.goals.shape == (4, 2)
    assert np.asarray(run.states.samples)[..., 0].min() > -2
    assert 0 <= run.metrics["aggregate"]["goal_success"]["mean"] <= 1
    assert {row["stage"] for row in run.log} == {"explore", "discover", "learn"}


def test_derived_settings_reach_the_registered_methods(use: ModuleType):
    assert str(use.run.config.explorer.region) == "x > -2"
    assert use.run.config.discoverer.num_skills == 4
    assert use.baseline.config.baseline.num_skills == 4


def test_registered_method_runs(use: ModuleType):
    assert use.baseline.policy.codes.shape == (4, 4)
    assert all(row["mean_length"] > 0 for row in use.baseline.log)


def test_registered_metric_is_part_of_the_results(use: ModuleType):
    first, metrics = use.run.seed(0), use.run.metrics
    played = evaluate.rollouts(
        stage_keys(use.run.config, "evaluate")[0], first.env, first.policy, first.skills.codes, first.skills.goals
    )
    moves = np.diff(np.asarray(played.features), axis=-2) / np.asarray(first.states.samples).std(axis=0)
    by_hand = np.linalg.norm(moves, axis=-1).sum(axis=-1).mean()
    assert metrics["per_seed"][0]["path_length"] == pytest.approx(by_hand, rel=1e-4)
    assert metrics["random"]["path_length"] > 0
    assert metrics["aggregate"]["path_length"]["mean"] == metrics["per_seed"][0]["path_length"]
    assert use.baseline.metrics["per_seed"][0]["path_length"] > 0


def test_registered_figure_and_metric_are_in_the_report(use: ModuleType):
    report = (use.run.path / "report.html").read_text()
    assert "Mean length of the last five moves of each skill." in report
    assert "Path length" in report
    assert (use.run.path / "figures" / "last_steps.png").read_bytes().startswith(b"\x89PNG")


def test_own_script_makes_the_methods_available_to_every_command(
    use: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["my_edl.py", *words])
        with pytest.raises(SystemExit) as stop:
            exec(compile((folder / "my_edl.py").read_text(), "my_edl.py", "exec"), {})
        assert stop.value.code == 0
        return capsys.readouterr().out

    listed = call("list")
    for name in ("lake", "rays", "random_goals", "compass"):
        assert f"\n  {name} " in listed
    options = call("run", "--env", "lake", "--explore", "rays", "--help")
    assert "--explorer.strength" in options
    assert "--explorer.region" not in options
    assert "--discoverer.num-skills" not in options


def test_env_is_named_on_the_command_line_by_its_module(folder: Path):
    from edl.interop.env_names import allow_import

    assert edl.make_env(allow_import("lake:Lake"), horizon=7).horizon == 7

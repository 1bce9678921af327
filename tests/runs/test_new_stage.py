"""A new stage is one entry of `STAGES`: run, resume, load, sweeps, the dry run and the report pick it up."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.program import one_shot
from edl.runs import pipeline, tensors
from edl.runs.checking import check_run
from edl.runs.config import RunConfig
from edl.runs.interrupt import catch_interrupts
from edl.runs.manifest import MANIFEST
from edl.runs.pipeline import Stage, identity, is_edl, plan
from edl.runs.points import LaneContext, env_key, evaluate_point, group_contexts, open_point, run_group
from edl.runs.progress import SilentProgress
from edl.runs.resolve import resolve_config

FILE = "centre.safetensors"
SETTINGS = {
    "explore": "random_walk",
    "explorer": RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
    "num_skills": 3,
    "horizon": 10,
}


def build_centre(method, inputs, radius):
    """The mean of the explored states, in units of the learner's radius."""
    if inputs.env.horizon < 5:
        raise ConfigError("episodes must have at least 5 steps for a centre.")
    samples = inputs.artifacts["explore"].samples
    return one_shot(lambda key: jnp.mean(samples, axis=0) / radius)


CENTRE = Stage(
    name="centre",
    key=77,
    takes=("explore",),
    when=is_edl,
    method=lambda config: "mean",
    settings=lambda config: config.learner.radius,
    config_paths=("learner.radius",),
    build=build_centre,
    file=FILE,
)


@pytest.fixture(scope="module", autouse=True)
def new_stage():
    """The one entry: after explore, so that the tests need not discover and learn."""
    explore, *others = pipeline.STAGES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "STAGES", (explore, CENTRE, *others))
        yield


@pytest.fixture(scope="module")
def run(new_stage, tmp_path_factory):
    """A finished run. Tests must not change its folder."""
    folder = tmp_path_factory.mktemp("new_stage") / "run"
    return edl.run("square", out=folder, until="centre", num_seeds=2, **SETTINGS)


def stored(path):
    (centre,) = tensors.arrays_of((path / FILE).read_bytes(), FILE).values()
    return centre


def test_its_artifact_is_computed_from_what_it_takes_and_is_stored(run):
    means = np.mean(run.states.samples, axis=1)
    np.testing.assert_allclose(stored(run.path), means / run.config.learner.radius, rtol=1e-5)


def test_its_time_and_identity_are_recorded_and_the_report_shows_its_time(run):
    assert list(run.metrics["seconds"]) == ["compile", "explore", "centre", "evaluate", "draw", "total"]
    progress = json.loads((run.path / "checkpoint" / "progress.json").read_text())
    assert progress["centre"]["identity"] == identity(CENTRE, run.config)
    assert "</i>centre " in (run.path / "report.html").read_text()


def test_resuming_computes_it_again_only_if_its_file_is_missing(run, tmp_path):
    folder = shutil.copytree(run.path, tmp_path / "run")

    def resume():
        return edl.run("square", out=folder, until="centre", resume=True, num_seeds=2, **SETTINGS)

    (folder / "metrics.json").unlink()  # so that the run is not finished
    centre, states = folder / FILE, folder / "states.safetensors"
    times = centre.stat().st_mtime_ns, states.stat().st_mtime_ns
    resume()
    assert (centre.stat().st_mtime_ns, states.stat().st_mtime_ns) == times
    (folder / "metrics.json").unlink()
    content = centre.read_bytes()
    centre.unlink()
    resume()
    assert centre.read_bytes() == content
    assert states.stat().st_mtime_ns == times[1]


def test_its_identity_depends_on_its_setting_and_its_ancestors_only():
    config = resolve_config(RunConfig(env="square", **SETTINGS))
    longer = resolve_config(RunConfig(env="square", **{**SETTINGS, "explorer": RandomWalkConfig(iterations=5)}))
    assert identity(CENTRE, config) != identity(CENTRE, longer)
    wider = resolve_config(RunConfig(env="square", learner=LearnConfig(radius=0.5), **SETTINGS))
    assert identity(CENTRE, config) != identity(CENTRE, wider)
    more_skills = resolve_config(RunConfig(env="square", **{**SETTINGS, "num_skills": 4}))
    assert identity(CENTRE, config) == identity(CENTRE, more_skills)


def test_its_artifact_is_bound_to_its_setting(run, tmp_path):
    folder = shutil.copytree(run.path, tmp_path / "run")
    (folder / MANIFEST).unlink()  # it would notice any change of config.json
    config = json.loads((folder / "config.json").read_text())
    config["learner"]["radius"] *= 2
    (folder / "config.json").write_text(json.dumps(config))
    (damaged,) = check_run(folder).bad
    assert damaged.name == FILE
    assert "was made with other settings" in damaged.note


def test_a_run_with_it_can_be_loaded_and_a_run_without_it_has_none(run):
    loaded = edl.load(run.path)
    np.testing.assert_array_equal(loaded.states.samples, run.states.samples)
    assert "centre" not in [stage.name for stage in plan(resolve_config(RunConfig(method="diayn")))]


def test_the_dry_run_rejects_settings_that_do_not_fit(tmp_path):
    with pytest.raises(ConfigError, match="at least 5 steps"):
        edl.run("square", out=tmp_path / "run", until="explore", **{**SETTINGS, "horizon": 4})
    assert not (tmp_path / "run").exists()


def test_points_of_a_sweep_share_it(tmp_path):
    learners = [LearnConfig(distance="euclidean", epsilon=epsilon) for epsilon in (3.0, 5.0)]
    configs = [resolve_config(RunConfig(env="square", learner=learner, **SETTINGS)) for learner in learners]
    points = [open_point(str(i), config, tmp_path / str(i)) for i, config in enumerate(configs)]
    contexts = group_contexts(configs)
    with catch_interrupts() as interrupt:
        run_group(points, contexts, LaneContext(jax.devices(), interrupt, SilentProgress()), until="centre")
    assert (tmp_path / "0" / FILE).read_bytes() == (tmp_path / "1" / FILE).read_bytes()
    metrics = evaluate_point(points[0], contexts[env_key(configs[0])])
    assert {"explore", "centre", "evaluate"} <= metrics["seconds"].keys()

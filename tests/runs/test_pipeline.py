"""The pipeline as data: every stage has one identity, which decides what is shared, cached and resumed."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl import explore
from edl.artifacts import States
from edl.config import ConfigError
from edl.explore.beyond import BeyondConfig
from edl.explore.oracle import OracleConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.region import Region
from edl.learn import LearnConfig
from edl.program import Method, one_shot
from edl.rl.ppo import PPOConfig
from edl.runs import store, tensors
from edl.runs.config import NEUTRAL, RunConfig, all_settings
from edl.runs.pipeline import STAGES, check_explored, identity, outlines, plan, run_identity, stage_keys
from edl.runs.resolve import make_context, resolve_config
from edl.runs.session import needed_stages
from edl.tables.table import setting, with_values

CONFIG = resolve_config(RunConfig(env="square", explore="oracle", discover="kmeans", num_skills=3))


def names(config, until=None):
    return [stage.name for stage in plan(config, until)]


def with_learner(**changes):
    return dataclasses.replace(CONFIG, learner=dataclasses.replace(CONFIG.learner, **changes))


def identities(config):
    return {stage.name: identity(stage, config) for stage in plan(config)}


def changed(config):
    """The stages whose identity differs from that of `CONFIG`."""
    return {name for name, each in identities(config).items() if each != identities(CONFIG).get(name)}


def test_the_plan_depends_on_the_config():
    assert names(CONFIG) == ["explore", "discover", "scout", "measure", "place", "learn"]
    assert names(CONFIG, until="discover") == ["explore", "discover"]
    assert names(with_learner(place_goals=False)) == ["explore", "discover", "scout", "measure", "learn"]
    assert names(with_learner(distance="euclidean")) == ["explore", "discover", "learn"]
    assert names(resolve_config(RunConfig(explore="frontier"))) == ["explore", "discover", "measure", "place", "learn"]
    assert names(resolve_config(RunConfig(method="diayn"))) == ["learn"]
    with pytest.raises(ConfigError, match=r"until must be one of explore, discover, .* \(got 'explor'\)"):
        plan(CONFIG, until="explor")


def test_stages_only_take_artifacts_of_earlier_stages_and_write_files_of_their_own():
    for method in ("edl", "diayn"):
        stages = plan(resolve_config(RunConfig(method=method, explore="oracle" if method == "edl" else "")))
        for i, stage in enumerate(stages):
            assert set(stage.takes) <= {each.name for each in stages[:i]}
        assert len({stage.file for stage in stages}) == len(stages)
        assert len({stage.key for stage in stages}) == len(stages)
    keys = {stage.name: stage.key for stage in STAGES}
    assert keys == {"explore": 0, "discover": 1, "scout": 2, "measure": 3, "learn": 4, "place": 6}  # 5 is evaluation


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({"explorer": {"num_samples": 99}}, {"explore", "discover", "measure", "place", "learn"}),
        ({"discoverer": {"restarts": 3}}, {"discover", "place", "learn"}),
        ({"num_skills": 4}, {"discover", "place", "learn"}),
        ({"scout": {"rollouts": 7}}, {"scout", "measure", "place", "learn"}),
        ({"learner": {"stop_at": 0.5}}, {"learn"}),
        ({"env": "tree"}, {"explore", "discover", "scout", "measure", "place", "learn"}),
        ({"seed": 7}, {"explore", "discover", "scout", "measure", "place", "learn"}),
        ({"num_seeds": 3}, {"explore", "discover", "scout", "measure", "place", "learn"}),
    ],
)
def test_a_setting_changes_the_identity_of_its_stage_and_of_the_stages_after_it(changes, stages):
    nested = {
        name: dataclasses.replace(getattr(CONFIG, name), **v) for name, v in changes.items() if isinstance(v, dict)
    }
    plain = {name: value for name, value in changes.items() if not isinstance(value, dict)}
    config = dataclasses.replace(CONFIG, **nested, **plain)
    if "num_skills" in changes:
        config = resolve_config(config)
    assert changed(config) == stages


def test_the_region_changes_every_identity():
    config = resolve_config(RunConfig(env="square", explore="oracle", discover="kmeans", num_skills=3, region="x > 0"))
    assert changed(config) == set(identities(CONFIG))


def test_the_version_changes_every_identity(monkeypatch):
    before = identities(CONFIG)
    monkeypatch.setattr(edl, "__version__", "999")
    assert all(before[name] != each for name, each in identities(CONFIG).items())


def test_the_identity_of_a_run_includes_its_seeds():
    assert run_identity(CONFIG) == run_identity(resolve_config(CONFIG))
    assert run_identity(CONFIG) != run_identity(dataclasses.replace(CONFIG, seed=1))
    assert run_identity(CONFIG) != run_identity(dataclasses.replace(CONFIG, num_seeds=2))


def test_artifacts_that_only_serve_finished_stages_are_not_needed():
    stages = plan(CONFIG)
    assert needed_stages(stages, {}) == set(names(CONFIG))
    assert needed_stages(stages, dict.fromkeys(names(CONFIG))) == {"explore", "discover", "place", "learn"}
    unlearned = dict.fromkeys(["explore", "discover", "scout", "measure", "place"])
    assert needed_stages(stages, unlearned) == {"explore", "discover", "measure", "place", "learn"}


def test_the_dry_run_knows_the_shapes_of_all_artifacts():
    shapes = outlines(CONFIG, make_context(CONFIG))
    assert list(shapes) == names(CONFIG)
    assert shapes["explore"].artifact.samples.shape[::2] == (1, 2)
    assert shapes["learn"].artifact.codes.shape == (1, 3, 2)


def test_a_seed_has_the_same_keys_in_any_run():
    alone = stage_keys(RunConfig(seed=5), "learn")
    among = stage_keys(RunConfig(seed=3, num_seeds=4), "learn")
    assert bool((alone[0] == among[2]).all())
    assert not bool((alone[0] == stage_keys(RunConfig(seed=5), "explore")[0]).all())


def test_states_outside_of_the_region_are_rejected():
    samples = np.zeros((1, 5, 2), np.float32)
    samples[0, 3, 0] = 2.0
    config = RunConfig(explore="random_walk", region=Region("x<1"))
    check_explored(dataclasses.replace(config, region=None), States(jnp.asarray(samples)))
    with pytest.raises(ConfigError, match="seed 0 of explore=random_walk never entered the region x<1"):
        check_explored(config, States(jnp.asarray(samples)))


PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
WALK = RandomWalkConfig(iterations=4, rollouts=8, num_samples=256)
SETTINGS = {
    "explore": "random_walk",
    "explorer": WALK,
    "discover": "kmeans",
    "num_skills": 3,
    "learner": LearnConfig(distance="euclidean", ppo=PPO),
}


def test_a_stage_on_disk_with_another_identity_is_computed_again(tmp_path):
    out = tmp_path / "run"
    first = edl.run("square", out=out, until="discover", **SETTINGS)
    states = (out / "states.safetensors").stat().st_mtime_ns
    progress = json.loads((out / "checkpoint" / "progress.json").read_text())
    progress["discover"]["identity"] = "of other settings"
    store.Folder(out).write_json(store.PROGRESS, progress)
    skills = (out / "skills.safetensors").stat().st_mtime_ns
    again = edl.run("square", out=out, resume=True, until="discover", **SETTINGS)
    assert (out / "states.safetensors").stat().st_mtime_ns == states
    assert (out / "skills.safetensors").stat().st_mtime_ns > skills
    np.testing.assert_array_equal(again.skills.goals, first.skills.goals)


BEYOND = BeyondConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,), cells=64, num_samples=64)


@pytest.mark.slow
def test_the_policy_of_an_explorer_is_saved_with_its_states(tmp_path):
    out = tmp_path / "run"
    settings = {**SETTINGS, "explore": "beyond", "explorer": BEYOND, "horizon": 6, "num_seeds": 2}
    states = edl.run("square", out=out, until="explore", **settings).states
    loaded = edl.load(out).states
    assert jax.tree.structure(loaded) == jax.tree.structure(states)
    for one, other in zip(jax.tree.leaves(states), jax.tree.leaves(loaded), strict=True):
        np.testing.assert_array_equal(one, other)
    policy = edl.load(out).seed(1).states.policy
    assert policy.act(jax.random.key(0), jnp.zeros(2), jnp.ones(2)).shape == (2,)
    assert edl.run("square", out=out, resume=True, until="discover", **settings).skills.goals.shape == (2, 3, 2)
    data = (out / "states.safetensors").read_bytes()
    arrays = tensors.arrays_of(data, "states")
    del arrays["policy.codes"]
    store.Folder(out).save("states.safetensors", arrays)
    with pytest.raises(ConfigError, match=r"lacks array 'policy\.codes': it does not belong to this run's config"):
        edl.load(out)


def test_most_explorers_have_no_policy(tmp_path):
    edl.run("square", out=tmp_path / "run", until="explore", **SETTINGS)
    assert edl.load(tmp_path / "run").states.policy is None


def states_at(value):
    """An explorer whose states all have this value plus a small index."""

    def explorer(env, config):
        return one_shot(lambda key: States(value + 0.01 * jnp.arange(config.num_samples * 2.0).reshape(-1, 2)))

    return explorer


def test_a_method_that_is_registered_again_replaces_the_first(monkeypatch):
    settings = {**SETTINGS, "explore": "mine", "explorer": None, "until": "explore"}
    for value in (1.0, 2.0):
        monkeypatch.setitem(explore.METHODS, "mine", Method(OracleConfig, states_at(value)))
        assert edl.run("square", **settings).states.samples[0, 0] == value


def test_walking_distance_needs_experience(monkeypatch):
    monkeypatch.setitem(explore.METHODS, "mine", Method(OracleConfig, states_at(0.0)))
    with pytest.raises(
        ConfigError, match="walking distance is measured from experience, and the explorer returned none"
    ):
        edl.run("square", explore="mine")


def test_identical_states_for_several_skills_are_rejected(tmp_path):
    data = tmp_path / "same.npy"
    np.save(data, np.zeros((50, 2), np.float32))
    with pytest.raises(ConfigError, match="num_skills=3 exceeds the 1 different states"):
        edl.run("square", **{**SETTINGS, "explore": f"dataset:{data}", "explorer": None})


@pytest.mark.parametrize(("method", "name"), [("metra", "METRAConfig"), ("diayn", "DIAYNConfig"), ("csf", "SACConfig")])
def test_settings_that_were_added_are_no_part_of_an_identity_until_they_do_something(method, name):
    config = resolve_config(RunConfig(env="square", method=method))
    owner = "baseline.sac" if name == "SACConfig" else "baseline"
    assert type(setting(config, owner)).__name__ == name
    left_out = all_settings(setting(config, owner))
    for added, neutral in NEUTRAL[name].items():
        assert setting(config, f"{owner}.{added}") == neutral
        assert added not in left_out
        other = {"sees": "observation", "constraint": "mean", "random_episodes": 3}.get(added, not neutral)
        assert run_identity(with_values(config, {f"{owner}.{added}": other})) != run_identity(config)

"""The paper's preset gives each method the authors' recipe, and envs in JAX have a recipe for their device."""

import dataclasses
import re

import pytest

from edl import baselines, discover, explore
from edl.baselines.diayn import DIAYNConfig
from edl.baselines.forward_mi import ForwardMIConfig
from edl.baselines.reverse_mi import ReverseMIConfig
from edl.cli import main
from edl.config import ConfigError
from edl.discover.vqvae import VQVAEConfig
from edl.explore.beyond import BeyondConfig
from edl.explore.frontier import FrontierConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.smm import SMMConfig
from edl.interop.env_names import FACTORIES, make_env, remember_factory
from edl.learn import LearnConfig, paper
from edl.runs import presets
from edl.runs.config import RunConfig, to_json
from edl.runs.presets import PAPER, complete, from_json
from edl.runs.resolve import resolve_config
from edl.tables.table import BASELINES
from tests.explore.thruster import Thruster

TRAINED = [
    name
    for name in BASELINES
    if {"ppo", "sac"} & {each.name for each in dataclasses.fields(baselines.METHODS[name].config)}
]
"""The baselines that PPO or SAC trains."""

ENVS = ("square", "tree", "bottleneck")


@pytest.mark.parametrize("env", ENVS)
def test_the_papers_run_has_the_authors_recipe_in_every_stage(env):
    config = resolve_config(RunConfig(env=env, preset="paper"))
    assert (config.explore, config.discover, config.scout) == ("oracle", "vqvae", None)
    assert config.learner == paper(env)
    assert config.discoverer == VQVAEConfig.paper()
    assert resolve_config(RunConfig(env=env, preset="paper", explore="smm")).explorer == SMMConfig.paper(env)


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize(("method", "config"), [("reverse_mi", ReverseMIConfig), ("forward_mi", ForwardMIConfig)])
def test_the_papers_baselines_have_the_authors_recipe(env, method, config):
    resolved = resolve_config(RunConfig(env=env, preset="paper", method=method, num_skills=7))
    assert resolved.baseline == dataclasses.replace(config.paper(env), num_skills=7)
    assert resolved.baseline != resolve_config(RunConfig(env=env, method=method, num_skills=7)).baseline


def test_the_number_of_samples_of_p_of_s_is_that_of_the_paper():
    config = complete(RunConfig(preset="paper"))
    assert config.discoverer.num_samples == 4096 <= config.explorer.num_samples


NO_RECIPE = {
    "method": [name for name in baselines.METHODS if name not in PAPER],
    "explore": [name for name in explore.METHODS if name not in PAPER],
    "discover": [name for name in discover.METHODS if name not in PAPER],
}
AVAILABLE = {"method": "reverse_mi, forward_mi", "explore": "oracle, smm"}


def test_the_methods_that_the_paper_runs_have_a_recipe():
    assert set(PAPER) == {
        *("reverse_mi", "forward_mi", "oracle", "smm", "vqvae", "learn"),
        *("kmeans", "gaussian_vae"),  # they can take the place of the VQ-VAE
    }
    assert NO_RECIPE["discover"] == []


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NO_RECIPE.items() for name in names])
def test_a_method_without_a_recipe_rejects_the_papers_preset(kind, name):
    what = {"explore": "explorer"}.get(kind, kind)
    message = f"the preset 'paper' has no recipe for the {what} '{name}'. It has recipes for {AVAILABLE[kind]}. Use one"
    with pytest.raises(ConfigError, match=re.escape(message)):
        resolve_config(RunConfig(preset="paper", **{kind: name}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["baseline", "diayn"], "no recipe for the method 'diayn'. It has recipes for reverse_mi, forward_mi."),
        (["run", "--explore", "frontier"], "no recipe for the explorer 'frontier'. It has recipes for oracle, smm."),
        (["run", "--env", "Pendulum-v1"], "needs a maze (got env 'Pendulum-v1')"),
    ],
)
def test_the_command_line_rejects_it_too_and_writes_nothing(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--preset", "paper", "--out", "run"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("settings", [{}, {"method": "reverse_mi"}, {"explore": "dataset:states.npy"}])
def test_envs_that_are_not_mazes_reject_the_papers_preset(settings):
    message = "the preset 'paper' needs a maze (got env 'Pendulum-v1'), because the paper has recipes for mazes only."
    with pytest.raises(ConfigError, match=re.escape(message)):
        complete(RunConfig(env="Pendulum-v1", preset="paper", **settings))


def test_settings_that_are_given_need_no_recipe():
    explorer, learner = FrontierConfig(patience=3), LearnConfig()
    config = complete(RunConfig(preset="paper", explore="frontier", explorer=explorer, learner=learner))
    assert (config.explorer, config.learner) == (explorer, learner)
    assert config.discoverer == VQVAEConfig.paper()
    baseline = DIAYNConfig(num_skills=10)
    assert complete(RunConfig(preset="paper", method="diayn", baseline=baseline)).baseline == baseline


def test_the_scout_of_walking_distance_has_our_settings():
    config = complete(RunConfig(preset="paper", learner=LearnConfig(distance="walking")))
    assert config.scout == RandomWalkConfig()


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        ({"explore": "frontier"}, {"explorer": FrontierConfig(patience=3)}),
        ({"method": "diayn"}, {"baseline": DIAYNConfig(learning_rate=0.5)}),
    ],
)
def test_saved_runs_of_older_versions_can_be_read_although_they_have_no_recipe(names, settings):
    saved = to_json(complete(RunConfig(preset="paper", **names, **settings)))
    read = from_json(saved, "config.json")
    assert to_json(read) == saved
    with pytest.raises(ConfigError, match="has no recipe"):
        from_json(
            {"preset": "paper", **names}, "sweep.toml"
        )  # not the config of a run: it leaves settings to the preset
    with pytest.raises(ConfigError, match="has no recipe"):
        from_json(to_json(complete(RunConfig(preset="paper"))), "config.json", **names)


def test_a_saved_run_in_an_env_that_is_no_maze_can_be_read():
    saved = to_json(complete(RunConfig(env="Pendulum-v1"))) | {"preset": "paper"}
    assert from_json(saved, "config.json").learner == complete(RunConfig(env="Pendulum-v1")).learner
    with pytest.raises(ConfigError, match="needs a maze"):
        from_json(to_json(complete(RunConfig(preset="paper"))), "config.json", env="Pendulum-v1")


def test_a_config_of_edl_0_2_keeps_its_settings():
    saved = to_json(complete(RunConfig(preset="paper", method="reverse_mi")))
    old = {"iterations": 400, "normalise": False, "entropy_weight": 0.01}
    saved["baseline"] = {"hidden": [128, 128], "learning_rate": 1e-3, "epochs": 4, "minibatches": 10, "ppo": old}
    baseline = from_json(saved, "config.json").baseline
    assert (baseline.ppo.iterations, baseline.ppo.normalise, baseline.ppo.entropy_weight) == (400, False, 0.01)


@pytest.mark.parametrize("config", [RunConfig(), *(RunConfig(method=name) for name in TRAINED)])
def test_every_method_of_the_fast_preset_normalises_its_inputs(config):
    """By running moments, or by the moments of the explored states. Offline methods and MAP-Elites have no setting."""
    resolved = complete(config)
    if resolved.method == "edl":
        assert (resolved.learner.scale_inputs, resolved.learner.ppo.normalise) == (True, False)
        return
    baseline = resolved.baseline
    learner = baseline.ppo if hasattr(baseline, "ppo") else baseline.sac
    assert learner.normalise


@pytest.fixture
def thruster():
    """The name of a user's env in JAX."""
    name = remember_factory(lambda: Thruster(horizon=30), "python:thruster")
    yield name
    del FACTORIES[name]


@pytest.fixture(params=[True, False], ids=["accelerator", "cpu"])
def accelerator(request, monkeypatch):
    monkeypatch.setattr(presets, "on_accelerator", lambda: request.param)
    return request.param


def test_an_env_in_jax_has_its_own_recipe(thruster, accelerator):
    config = complete(RunConfig(env=thruster))
    assert (config.explore, config.discover, config.scout) == ("beyond", "vqvae", None)
    explorer, learner = config.explorer, config.learner
    assert explorer.rollouts == learner.ppo.rollouts
    assert explorer.rollouts >= 2048 if accelerator else explorer.rollouts <= 64
    assert explorer.unroll == learner.ppo.unroll == 10
    assert explorer.iterations * explorer.rollouts * 10 == (40_960_000 if accelerator else 320_000)
    assert (learner.start, learner.reward, learner.distance) == ("explorer", "progress", "normalised")
    assert learner.ppo.hidden == explorer.hidden
    assert learner.ppo.normalise_codes


@pytest.mark.parametrize(("explore", "most"), [("random_walk", 2_000_000), ("knn", 10_000_000)])
def test_explorers_that_play_whole_episodes_have_many_envs_on_an_accelerator(thruster, accelerator, explore, most):
    explorer = complete(RunConfig(env=thruster, explore=explore)).explorer
    host = complete(RunConfig(env="Pendulum-v1", explore=explore)).explorer
    if not accelerator:
        assert explorer == host
        return
    assert explorer.rollouts >= 1024
    episodes = explorer.iterations * explorer.rollouts
    assert host.iterations * host.rollouts <= episodes <= most / 200  # all are recorded


def test_a_learner_without_an_explorers_policy_starts_from_scratch(thruster):
    for names in ({"explore": "drift"}, {"discover": "gaussian_vae"}):
        assert complete(RunConfig(env=thruster, **names)).learner.start == "scratch"
    small = BeyondConfig(hidden=(32,))
    assert complete(RunConfig(env=thruster, explorer=small)).learner.ppo.hidden == (32,)
    assert complete(RunConfig(explore="beyond")).learner == LearnConfig()  # mazes keep their learner


def test_a_saved_run_keeps_its_numbers_on_another_device(thruster, monkeypatch):
    monkeypatch.setattr(presets, "on_accelerator", lambda: True)
    config = complete(RunConfig(env=thruster))
    saved = to_json(config)
    assert saved["explorer"]["rollouts"] == 4096
    monkeypatch.setattr(presets, "on_accelerator", lambda: False)
    assert from_json(saved, "config.json") == config


@pytest.mark.parametrize(("horizon", "unroll"), [(200, 10), (480, 10), (72, 12), (50, 10), (46, 23), (97, 0), (10, 0)])
def test_the_unroll_divides_the_horizon(horizon, unroll):
    assert presets.unroll_of(horizon) == unroll


def test_baselines_in_an_env_in_jax(thruster, accelerator):
    metra = complete(RunConfig(env=thruster, method="metra")).baseline
    assert (metra.skills, metra.sees, metra.sac.hidden) == ("continuous", "observation", (1024, 1024))
    assert metra.sac.rollouts == (256 if accelerator else 8)
    for method in ("lsd", "csd", "csf", "apt", "cic"):  # the same recipe for all methods of the comparison
        baseline = complete(RunConfig(env=thruster, method=method)).baseline
        assert (baseline.hidden, baseline.learning_rate) == (metra.hidden, metra.learning_rate)
        assert dataclasses.replace(baseline.sac, objective_batch_size=0) == metra.sac
    steps = metra.sac.rollouts * make_env(thruster).horizon // metra.sac.update_every
    assert baseline.minibatches == steps
    assert baseline.sac.objective_batch_size == steps * metra.sac.batch_size
    ppo = complete(RunConfig(env=thruster, method="reverse_mi")).baseline.ppo
    assert ppo.rollouts == (1024 if accelerator else 64)


def test_a_gymnasium_env_keeps_the_recipe_of_slow_envs(accelerator):
    config = complete(RunConfig(env="Pendulum-v1"))
    assert (config.explore, config.learner.algorithm, config.learner.start) == ("hindsight", "sac", "explorer")
    assert config.timed
    assert config.explorer.sac.hidden == config.learner.sac.hidden
    assert config.learner.sac.update_every == 6  # about a thousand gradient steps per iteration of 32 episodes
    assert complete(RunConfig(env="Pendulum-v1", horizon=50)).learner.sac.update_every == 1


def test_beyond_has_many_small_iterations_where_steps_are_few(accelerator):
    """The defaults of its config are for robots: 100,000 steps in a maze would be one iteration."""
    maze, host = (complete(RunConfig(env=env, explore="beyond")).explorer for env in ("square", "Pendulum-v1"))
    assert maze.iterations * maze.rollouts * 50 == 100_000
    assert 300_000 <= host.iterations * host.rollouts * 200 <= 600_000  # like the other explorers of these envs
    for explorer in (maze, host):
        assert explorer.iterations >= 100
        assert explorer.hidden == (128, 128)
        assert explorer.unroll == 0  # the envs of a host are not part of a checkpoint
        assert explorer.episodes >= (explorer.iterations + 1) * explorer.rollouts  # all are kept: coverage is exact
    assert host == complete(RunConfig(env="Pendulum-v1", explore="beyond", horizon=100)).explorer
    assert maze == complete(RunConfig(env="bottleneck", explore="beyond")).explorer
    given = BeyondConfig(rollouts=7)
    assert complete(RunConfig(env="square", explore="beyond", explorer=given)).explorer == given


def test_stage_3_learns_from_scratch_after_other_explorers_of_a_gymnasium_env():
    config = complete(RunConfig(env="Pendulum-v1", explore="drift"))
    assert (config.learner.algorithm, config.learner.start, config.timed) == ("sac", "scratch", True)
    config = complete(RunConfig(env="Pendulum-v1", explore="drift", discover="gaussian_vae"))  # codes are not goals
    assert (config.learner.algorithm, config.learner.reward, config.timed) == ("ppo", "visits", False)
    assert not complete(RunConfig(env="Pendulum-v1", method="diayn")).timed
    assert not complete(RunConfig(env="square")).timed


def test_a_gymnasium_run_of_edl_0_2_keeps_its_recipe():
    saved = to_json(complete(RunConfig(env="Pendulum-v1", explore="drift")))
    del saved["timed"], saved["learner"]["algorithm"], saved["learner"]["sac"], saved["learner"]["start"]
    config = from_json(saved, "config.json")
    assert (config.learner.algorithm, config.learner.start, config.timed) == ("ppo", "scratch", False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"env": "square", "explore": "hindsight"},
            "explorer 'hindsight' needs an env that shows the time left, such as a Gymnasium env (got 'square', which "
            "is a maze). Use --explore frontier.",
        ),
        ({"env": "ant", "explore": "hindsight"}, "(got 'ant', which is a robot). Use --explore beyond."),
        (
            {"env": "square", "learner": LearnConfig(algorithm="sac")},
            "learner.algorithm 'sac' needs an env that shows the time left",
        ),
    ],
)
def test_mazes_and_robots_reject_what_needs_the_time_left(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        complete(RunConfig(**settings))

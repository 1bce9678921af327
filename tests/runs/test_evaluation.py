"""Metrics of runs with policies that are made by hand, and of folders from older versions."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.artifacts import PickRule, SkillPolicy, TargetAsGoal
from edl.baselines.pick_rules import NearestMean
from edl.baselines.reverse_mi import ReverseMIConfig
from edl.cli import main
from edl.envs import layouts
from edl.envs.maze import maze
from edl.evaluate.metrics import CURRENT_DEFINITIONS, METRICS
from edl.evaluate.picking import PRACTICE_RULE
from edl.nets.distributions import action_distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.rl.ppo import PPOConfig
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.evaluation import evaluate_run, metrics_of, panel_of, reevaluate
from edl.runs.result import Run, load

LAYOUT = layouts.load("corridor_center")
ENV = maze(LAYOUT)
PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))


def walker(codes, goals, pick: PickRule | None) -> SkillPolicy:
    """The policy of two seeds: a = tanh(z - s), with hardly any noise. It goes to its code."""
    toward = jnp.concatenate([-jnp.eye(2), jnp.eye(2)])
    actor = MLP([jnp.concatenate([toward, jnp.zeros((4, 2))], axis=1)], [jnp.array([0.0, 0.0, -9.0, -9.0])])
    actions = action_distribution(ENV.action_space, "tanh_gaussian")
    policy = SkillPolicy(actor, identity_normaliser(2), actions, codes, goals, pick=pick)
    return jax.tree.map(lambda x: jnp.stack([x, x]), policy)


def evaluated(policy: SkillPolicy) -> dict:
    num_skills = policy.codes.shape[1]
    config = RunConfig(env="corridor_center", method="skewfit", num_skills=num_skills, num_seeds=2, seed=3)
    run = Run(config=config, env=ENV, layout=LAYOUT, policy=policy)
    return metrics_of(run, evaluate_run(run), {}, {})


ENDS = jnp.array([[-5.0, 0.0], [5.0, 0.0]])


@pytest.fixture(scope="module")
def told():
    return evaluated(walker(ENDS, ENDS, TargetAsGoal()))


def test_a_policy_that_goes_where_it_is_told_has_no_zero_shot_distance(told):
    """A target at x is 5 - |x| from the nearer of the two example goals: (0.5^2 + 5^2) / 2 / 5.5 = 2.3 on average."""
    for seed in told["per_seed"]:
        assert seed["zero_shot_distance"] < 0.05
        assert seed["best_skill_distance"] == pytest.approx(2.3, abs=0.15)
        assert (seed["goal_success"], seed["worst_skill_success"]) == (1.0, 1.0)
    assert told["picked_by"] == "the goal g = x"


def test_metrics_state_their_definitions_and_list_every_skill(told):
    assert told["metric_definitions"] == CURRENT_DEFINITIONS
    assert [seed["seed"] for seed in told["per_seed"]] == [3, 4]
    for seed in told["per_seed"]:
        assert seed.keys() - {"seed", "skills"} <= METRICS.keys()
        first, second = seed["skills"]
        assert first["goal"] == [-5.0, 0.0]
        assert second["end"] == pytest.approx([5.0, 0.0], abs=0.05)
        assert (second["skill"], second["goal_success"]) == (1, 1.0)
    assert "skills" not in told["aggregate"]
    assert told["aggregate"]["worst_skill_success"]["mean"] == 1.0
    json.dumps(store.plain(told), allow_nan=False)


def test_the_skills_that_a_rule_picks_are_scored(told):
    right = evaluated(walker(ENDS, None, NearestMean(ENDS)))
    wrong = evaluated(walker(ENDS, None, NearestMean(-ENDS)))
    for good, bad in zip(right["per_seed"], wrong["per_seed"], strict=True):
        assert good["zero_shot_distance"] == pytest.approx(good["best_skill_distance"], abs=0.01)
        assert bad["zero_shot_distance"] == pytest.approx(5.0 + 2.75, abs=0.15)
        assert good["goal_success"] is None
    assert right["picked_by"] == "argmax_z q(x|z)"


def test_without_a_rule_practice_decides():
    metrics = evaluated(walker(ENDS, None, None))
    assert metrics["picked_by"] == PRACTICE_RULE
    for seed in metrics["per_seed"]:
        assert seed["zero_shot_distance"] == pytest.approx(seed["best_skill_distance"], abs=0.01)


def test_the_panel_has_every_seed_that_did_not_fail():
    policy = walker(ENDS, ENDS, TargetAsGoal())
    config = RunConfig(env="corridor_center", method="skewfit", num_skills=2, num_seeds=2, seed=3)
    run = Run(config=config, env=ENV, layout=LAYOUT, policy=policy)
    shown, other = panel_of(run), panel_of(dataclasses.replace(run, failed={0: "learn: NaN"}))
    assert shown is not None
    assert other is not None
    assert [seed["seed"] for seed in shown["seeds"]] == [3, 4]
    assert [seed["seed"] for seed in other["seeds"]] == [4]
    assert (shown["numSeeds"], other["numSeeds"]) == (2, 1)
    assert shown["seeds"][1]["goals"] == ENDS.tolist()
    assert panel_of(dataclasses.replace(run, policy=None)) is None


def test_random_actions_have_a_zero_shot_distance_too(told):
    assert 2.0 < told["random"]["best_skill_distance"] <= told["random"]["zero_shot_distance"] < 6.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "reverse"
    edl.run("square", method="reverse_mi", num_skills=3, baseline=ReverseMIConfig(hidden=(8,), ppo=PPO), out=out)
    return out


def test_the_rule_is_stored_with_the_policy(folder):
    run = load(folder)
    weights = run.policy.pick.classifier.weights
    assert [weight.shape for weight in weights] == [(1, 2, 8), (1, 8, 3)]
    again, _ = reevaluate(folder)
    assert again.metrics["per_seed"] == run.metrics["per_seed"]
    assert again.metrics["steps"] == run.metrics["steps"]


def test_a_folder_of_an_older_version_has_no_rule_and_is_evaluated_by_practice(folder, tmp_path, capsys):
    old = tmp_path / "old"
    old.mkdir()
    for file in ("config.json", "provenance.json", "checkpoint/progress.json", "metrics.json"):
        (old / file).parent.mkdir(exist_ok=True)
        (old / file).write_bytes((folder / file).read_bytes())
    run = load(folder)
    store.Folder(old).save("policy.safetensors", eqx.tree_at(lambda policy: policy.pick, run.policy, None))
    metrics = json.loads((old / "metrics.json").read_text())
    for seed in metrics["per_seed"]:
        seed["zero_shot_distance"] = seed.pop("best_skill_distance")
    (old / "metrics.json").write_text(json.dumps({k: v for k, v in metrics.items() if k != "metric_definitions"}))
    loaded = load(old)
    assert loaded.policy.pick is None
    np.testing.assert_array_equal(loaded.policy.codes, run.policy.codes)
    assert main(["evaluate", str(old)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "metrics.json held metrics by other definitions (edl 0.1: zero_shot_distance is the distance" in printed
    again = json.loads((old / "metrics.json").read_text())
    assert (again["metric_definitions"], again["picked_by"]) == (CURRENT_DEFINITIONS, PRACTICE_RULE)
    assert again["per_seed"][0]["best_skill_distance"] == run.metrics["per_seed"][0]["best_skill_distance"]
    assert main(["evaluate", str(old)]) == 0
    assert "other definitions" not in capsys.readouterr().out

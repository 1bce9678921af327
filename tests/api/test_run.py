"""`edl.run`, `edl.load` and the methods of `edl.Run`."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.api.runs import Run
from edl.config import ConfigError
from edl.runs import result
from edl.runs.evaluation import evaluator_of
from tests.api.conftest import EXPLORE, TINY


def test_a_run_of_one_seed_has_no_axis_of_seeds(tiny):
    assert tiny.states.samples.shape == (256, 2)
    assert tiny.skills.goals.shape == (3, 2)
    assert tiny.policy.codes.shape == (3, 2)
    assert tiny.metrics["goal_success"] == tiny.metrics["per_seed"][0]["goal_success"]
    assert tiny.metrics["goal_success"] == tiny.metrics["aggregate"]["goal_success"]["mean"]
    assert tiny.seeds == (tiny,)
    assert tiny.seed(0).seed(0) is tiny


def test_the_repr_is_short_and_names_what_there_is(tiny, folder):
    lines = repr(tiny).splitlines()
    assert lines[0] == "Run: 3 skills in square by random_walk + kmeans, seed 0"
    assert lines[1].startswith("  goal_success 0.")
    assert lines[2] == "  states, skills, policy, metrics, log, config"
    assert lines[3] == f"  {folder}/report.html"


def test_running_a_cell_again_returns_the_finished_run(tiny, folder, monkeypatch):
    monkeypatch.setattr("edl.runs.run.work", lambda *args: pytest.fail("the run was computed again"))
    again = edl.run("square", out=folder, **TINY)
    assert again.metrics == tiny.metrics
    with pytest.raises(ConfigError, match=r"other settings: num_skills was 3 and is now 4.* choose another out\.$"):
        edl.run("square", out=folder, **{**TINY, "num_skills": 4})


def test_loading_gives_the_same_run(tiny, folder):
    loaded = edl.load(folder)
    assert loaded.metrics == tiny.metrics
    assert loaded.log == tiny.log
    for a, b in zip(jax.tree.leaves(loaded.policy), jax.tree.leaves(tiny.policy), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_is_printed_without_a_terminal(capsys):
    edl.run("square", until="explore", explore="random_walk", **EXPLORE)
    assert capsys.readouterr().out == ""
    edl.run("square", until="explore", explore="random_walk", progress=True, **EXPLORE)
    assert "explore   done in" in capsys.readouterr().out


def test_several_seeds_are_complete_runs(tiny):
    stacked = result.load(tiny.path)
    twice = jax.tree.map(
        lambda leaf: jnp.concatenate([leaf, leaf + 1]), (stacked.states, stacked.skills, stacked.policy)
    )
    seeds = [{**stacked.metrics["per_seed"][0], "goal_success": value, "seed": i} for i, value in enumerate((0.2, 0.6))]
    summary = {name: {"mean": 0.4, "iqm": 0.4, "ci95": [0.2, 0.6]} for name in ("goal_success",)}
    many = Run(
        replace(
            stacked,
            config=replace(stacked.config, num_seeds=2),
            states=twice[0],
            skills=twice[1],
            policy=twice[2],
            metrics={**stacked.metrics, "num_seeds": 2, "per_seed": seeds, "aggregate": summary},
            log=[{"stage": "learn", "iteration": 1, "goal_success": [0.2, 0.6]}],
        )
    )
    assert many.policy.codes.shape == (2, 3, 2)
    assert many.metrics["goal_success"] == 0.4
    assert many.log[0]["goal_success"] == [0.2, 0.6]
    second = many.seeds[1]
    assert (second.config.seed, second.config.num_seeds) == (1, 1)
    np.testing.assert_allclose(second.skills.goals, tiny.skills.goals + 1, atol=1e-6)
    assert second.metrics["goal_success"] == second.metrics["aggregate"]["goal_success"]["mean"] == 0.6
    assert second.metrics["num_seeds"] == len(second.metrics["per_seed"]) == 1
    assert second.log[0]["goal_success"] == 0.6
    assert second.numpy_policy().num_skills == 3
    assert "seeds[0] to seeds[1]" in repr(many)
    with pytest.raises(ConfigError, match=r"several seeds. Choose one: run.seeds\[0\].pick"):
        many.pick([0.0, 0.0])
    with pytest.raises(ConfigError, match="between 0 and 1"):
        many.seed(2)


def test_actions_for_numbers_codes_lists_and_batches(tiny):
    policy, codes = tiny.policy, tiny.policy.codes
    one = policy.mode(jnp.zeros(2), codes[1])
    for observation in ([0, 0], np.zeros(2), jnp.zeros(2)):
        np.testing.assert_array_equal(policy.mode(observation, 1), one)
    batch = policy.mode(np.zeros((3, 2)), [0, 1, 2])
    np.testing.assert_allclose(batch[1], one, atol=1e-6)
    np.testing.assert_allclose(tiny.act([0.0, 0.0], [0, 1, 2]), batch, atol=1e-6)
    key = jax.random.key(3)
    np.testing.assert_allclose(
        jax.jit(policy.act)(key, [0.0, 0.0], 1), policy.act(key, [0.0, 0.0], codes[1]), atol=1e-6
    )
    assert tiny.act(np.zeros((4, 2)), 1, key=0).shape == (4, 2)


def test_rollouts_of_skills_and_blends(tiny):
    one = tiny.rollout(1, n=2)
    assert one.features.shape == (2, 51, 2)
    np.testing.assert_array_equal(one.skill.goal[0], tiny.skills.goals[1])
    assert tiny.rollout([0, 2], n=2).features.shape == (2, 2, 51, 2)
    assert tiny.rollout(n=2).features.shape == (3, 2, 51, 2)
    blend = tiny.blend(0, 1, 0.3)
    np.testing.assert_allclose(blend, 0.7 * tiny.policy.codes[0] + 0.3 * tiny.policy.codes[1], atol=1e-6)
    assert tiny.rollout(blend, n=2).features.shape == (2, 51, 2)
    started = tiny.rollout(1, start=[0.25, 0.5], n=2)
    np.testing.assert_allclose(started.features[:, 0], [[0.25, 0.5]] * 2)
    assert bool(jnp.all(started.valid))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skill": 3}, r"a skill must be between 0 and 2 \(got 3\)"),
        ({"skill": [0.1, 0.2, 0.3]}, r"a code must have 2 numbers"),
        ({"skill": 0, "n": 0}, r"n must be at least 1"),
        ({"skill": 0, "start": [99.0, 0.0]}, r"start must be a position in the maze \(got \[99.0, 0.0\]\)"),
        ({"skill": 0, "start": 1.0}, r"start must be a position \(x, y\)"),
    ],
)
def test_bad_rollouts_are_rejected(tiny, arguments, message):
    with pytest.raises(ConfigError, match=message):
        tiny.rollout(**arguments)


def test_picked_skills_are_those_of_the_posterior(tiny):
    targets = np.asarray(tiny.states.samples[:20])
    expected = np.asarray(jax.vmap(tiny.skills.assign)(jnp.asarray(targets)))
    np.testing.assert_array_equal(tiny.pick(targets), expected)
    assert tiny.pick(targets[0].tolist()) == expected[0]
    np.testing.assert_array_equal(tiny.numpy_policy().pick(targets), expected)
    np.testing.assert_array_equal(tiny.numpy_policy().goals, tiny.skills.goals)
    with pytest.raises(ConfigError, match=r"2 features in this env \(got shape \(3,\)\)"):
        tiny.pick([0.0, 0.0, 0.0])


def test_a_run_without_a_rule_builds_its_evaluator_once(tiny, monkeypatch):
    calls = []
    monkeypatch.setattr("edl.api.runs.evaluator_of", lambda *args: calls.append(args) or evaluator_of(*args))
    by_practice = Run(replace(result.load(tiny.path), skills=None))
    assert by_practice.policy.pick is None
    assert by_practice.pick([0.0, -1.0]) == by_practice.pick([0.0, -1.0])
    assert len(calls) == 1


def test_plots(tiny):
    figure = tiny.plot()
    assert {type(figure).__name__, type(tiny.plot("usage")).__name__} == {"Figure"}
    assert figure._repr_png_().startswith(b"\x89PNG")  # what IPython shows
    with pytest.raises(ConfigError, match=r"no figure 'skil'. Available: skills, states"):
        tiny.plot("skil")


def test_the_log_is_a_table(tiny, folder, tmp_path):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert len(tiny.log) == len(rows)
    success = tiny.log.columns("learn")["goal_success"]
    np.testing.assert_array_equal(success, [row["goal_success"][0] for row in rows if row["stage"] == "learn"])
    tiny.log.to_csv(tmp_path / "log.csv")
    header, *lines = (tmp_path / "log.csv").read_text().splitlines()
    assert header.startswith("stage,iteration,env_steps,seconds")
    assert len(lines) == len(rows)
    assert "learn" in repr(tiny.log)
    assert len(repr(tiny.log).splitlines()) < 25


def test_skills_leave_the_process_with_goals_and_pick(tiny, tmp_path: Path):
    from edl.cli import main

    assert main(["export", str(tiny.path), "--out", str(tmp_path / "policy.py")]) == 0
    names: dict = {}
    exec(compile((tmp_path / "policy.py").read_text(), "policy.py", "exec"), names)
    np.testing.assert_array_equal(names["skills"].goals, tiny.skills.goals)
    assert names["skills"].pick([0.3, 1.0]) == tiny.pick([0.3, 1.0])

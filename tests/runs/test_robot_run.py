"""Runs with MuJoCo models: from the XML to the report, and what happens if the physics diverge."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs.host import EnvError
from edl.envs.mjx import physics, render
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import cross_check as cross_checks
from edl.runs import driver, evaluation, films, session, store, tensors
from edl.runs.config import RunConfig
from edl.runs.cross_check import _agreement, cross_check, describe_cross_check, floors_of, play_trials_in_mujoco
from edl.runs.progress import SilentProgress
from edl.runs.result import load
from edl.runs.run import execute_run
from tests.envs.mjx.models import BALL, UNSTABLE, write

pytest.importorskip("mujoco.mjx")

WALK = RandomWalkConfig(iterations=3, rollouts=4, num_samples=64)
PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
EXPLORE = {"features": "x,y", "horizon": 5, "explore": "random_walk", "explorer": WALK}
SETTINGS = {
    **EXPLORE,
    "discover": "kmeans",
    "discoverer": KMeansConfig(),
    "learner": LearnConfig(reward="visits", distance="normalised", ppo=PPO),
    "num_skills": 2,
    "num_seeds": 2,
}


@pytest.fixture(scope="module")
def ball_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robot")
    return edl.run(write(folder, BALL) + "?noise=0.1", out=folder / "run", **SETTINGS)


def test_a_run_with_a_model_can_be_loaded_after_its_file_is_gone(ball_run, tmp_path):
    saved = json.loads((ball_run.path / "config.json").read_text())
    assert saved["features"] == "x,y"
    assert '<mujoco model="ball">' in saved["maze"]
    xml = ball_run.path.parent / "robot.xml"
    text = xml.read_text()
    xml.unlink()
    loaded = edl.load(ball_run.path)
    xml.write_text(text)
    assert loaded.env.physics == ball_run.env.physics
    np.testing.assert_array_equal(loaded.policy.codes, ball_run.policy.codes)


def test_the_report_has_a_picture_of_every_skill_or_says_why_not(ball_run):
    assert (ball_run.path / "figures" / "robot.png").stat().st_size > 1000
    assert "The camera follows the robot." in (ball_run.path / "report.html").read_text()


@pytest.mark.browser
def test_the_panel_of_the_report_plays_the_recorded_rollouts(ball_run, page):
    """Trails over x and y, a clicked goal, and the pictures of the skill that is picked for it."""
    found = evaluation.evaluate_run(load(ball_run.path)).episodes
    page.emulate_media(reduced_motion="reduce")
    page.goto((ball_run.path / "report.html").as_uri())
    ends = page.evaluate("studio.panels[0].groups.map(({ paths }) => paths.map((path) => Array.from(path.slice(-2))))")
    np.testing.assert_allclose(ends, np.asarray(found.features)[0, :, :10, -1], atol=1e-3)
    page.locator("#studio .frame canvas").click()
    assert page.locator("#studio .status").get_attribute("data-distance") is not None
    skill = page.evaluate("studio.panels[0].groups[0].skill")
    goal = page.evaluate("studio.state.goal")
    assert f"Skill {skill}, picked by q(z|x) for" in page.locator("#studio .status").inner_text()
    assert skill == int(ball_run.seeds[0].pick(goal))
    film = films.film_of(ball_run.env, ball_run.seeds[0].policy, jax.tree.map(lambda x: x[0], found))
    assert film is not None
    assert page.locator("#studio .strip").is_visible() == (film.frames is not None)
    page.get_by_label("Training seed").select_option("1")
    assert page.evaluate("studio.panels[0].groups[0].skill") == int(ball_run.seeds[1].pick(goal))


def test_without_a_renderer_there_is_a_message(ball_run, monkeypatch):
    monkeypatch.setattr(render, "BACKENDS", ("no_such_backend",))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert render.render_poses(ball_run.env, np.zeros((2, 2))) is None
    episodes = jax.tree.map(lambda x: x[0], evaluation.evaluate_run(load(ball_run.path)).episodes)
    (figure,) = films.film_figure(films.film_of(ball_run.env, ball_run.seeds[0].policy, episodes)).values()
    assert "no offscreen renderer" in figure.texts[0].get_text()


FLOOR = ["floor_coverage", "directions_coverage", "reached_within_1", "disc_within_1", "far_within_1"]
COMPARED = ["goal_distance", "goal_success", "travelled", *FLOOR]


@pytest.mark.slow
def test_the_policy_gives_the_same_results_in_mujoco(ball_run):
    run = load(ball_run.path)
    found = cross_check(run, num_rollouts=3)
    assert [each["seed"] for each in found["per_seed"]] == [0, 1]
    for each in found["per_seed"]:
        assert each["ends_apart"] < 1e-4
        assert each["mjx"]["travelled"] > 1e-3
        assert list(each["mjx"]) == list(each["mujoco"]) == COMPARED
        for name in COMPARED[:3]:
            assert each["mujoco"][name] == pytest.approx(each["mjx"][name], abs=1e-4)
        assert each["mujoco"]["reached_within_1"] == pytest.approx(each["mjx"]["reached_within_1"], abs=0.1)
    assert list(found["agrees"]) == COMPARED
    assert all(found["agrees"][name] for name in COMPARED[:3])
    for ours, theirs in zip(found["floor"]["mjx"], found["floor"]["mujoco"], strict=True):
        assert theirs["told_by"] == ours["told_by"]
        for name, goals in ours["goals"].items():  # a ball has no chaos: both simulators reach the same goals
            assert theirs["goals"][name]["distance"] == pytest.approx(goals["distance"], abs=0.05)
    lines = describe_cross_check(found)
    assert list(lines) == ["mjx", "mujoco", "agree", "differ"]
    assert [part.split()[0] for part in lines["mujoco"].split(", ")] == COMPARED
    assert lines["agree"].startswith("goal_distance, goal_success, travelled")


def test_the_floor_in_mjx_comes_from_the_metrics_or_is_measured(ball_run, monkeypatch):
    played = {None: [{"in": "mjx"}] * 2, play_trials_in_mujoco: [{"in": "mujoco"}] * 2}
    monkeypatch.setattr(cross_checks, "evaluate_floor", lambda run, play_in=None: played[play_in])
    run = load(ball_run.path)
    saved = [each["floor"] for each in run.metrics["per_seed"]]
    assert floors_of(run, [0, 1]) == {"mjx": saved, "mujoco": played[play_trials_in_mujoco]}
    assert floors_of(run, [1])["mjx"] == saved[1:]
    for metrics in (None, {}, {**run.metrics, "metric_definitions": 1}, {**run.metrics, "per_seed": [{}, {}]}):
        assert floors_of(dataclasses.replace(run, metrics=metrics), [0, 1])["mjx"] == played[None]


def test_an_explorer_is_compared_by_the_floor(ball_run):
    """Its policy stands in for that of an explorer that learns one."""
    run = load(ball_run.path)
    states = dataclasses.replace(run.states, policy=run.policy)
    found = cross_check(dataclasses.replace(run, policy=None, skills=None, states=states))
    assert found.keys() == {"per_seed", "agrees", "floor"}
    assert list(found["agrees"]) == FLOOR
    lines = describe_cross_check(found)
    assert lines["mjx"].startswith("floor_coverage ")
    assert lines["mujoco"].startswith("floor_coverage ")


def test_a_seed_that_failed_is_not_compared(ball_run):
    found = cross_check(dataclasses.replace(load(ball_run.path), failed={0: "stage 'learn': NaN"}), num_rollouts=3)
    assert [each["seed"] for each in found["per_seed"]] == [1]
    assert [len(each) for each in found["floor"].values()] == [1, 1]
    assert found["agrees"] is None
    assert list(describe_cross_check(found)) == ["mjx", "mujoco"]


def test_numbers_that_differ_by_more_than_the_spread_are_named():
    rows = [
        {"seed": i, "mjx": {"near": i + 0.0, "far": i + 0.0}, "mujoco": {"near": i + 0.5, "far": i + 5000.0}}
        for i in range(2)
    ]
    found = {"per_seed": rows, "agrees": _agreement(rows)}
    assert found["agrees"] == {"near": True, "far": False}
    lines = describe_cross_check(found)
    assert lines == {"mjx": "near 0.5, far 0.5", "mujoco": "near 1, far 5000", "agree": "near", "differ": "far"}
    assert describe_cross_check({}) == {}


def test_the_cross_check_needs_a_robot():
    run = execute_run(RunConfig(explore="random_walk", explorer=WALK), until="explore")
    with pytest.raises(ConfigError, match=r"needs a trained policy of a robot \(got env 'square'\)"):
        cross_check(run)


def test_physics_that_diverges_ends_the_run_with_one_error(tmp_path):
    name = write(tmp_path, UNSTABLE)
    with pytest.raises(EnvError, match=r"env 'mjx:.*robot.xml' has NaN .* between iterations 0 and 1.*timestep"):
        edl.run(name, out=tmp_path / "run", until="explore", **EXPLORE)
    assert not (tmp_path / "run" / "states.safetensors").exists()
    assert (tmp_path / "run" / "config.json").exists()


class BreakingPhysics(SilentProgress):
    """Stands in for MJX, because it compiles faster. Positions are NaN while it is ``broken``.

    It breaks after iteration 2 of stage 3. The compiled programs look at ``broken`` in every step.
    """

    def __init__(self):
        self.broken = False

    def __call__(self, model, state, control, walls):
        factor = jax.pure_callback(
            lambda _: np.float32(np.nan if self.broken else 1.0),
            jax.ShapeDtypeStruct((), np.float32),
            control,
            vmap_method="sequential",
        )
        return state._replace(qpos=factor * (state.qpos + 0.1 * control))

    def stage_advanced(self, stage, progress):
        self.broken = self.broken or (stage == "learn" and progress.iteration == 2)


def test_nan_after_a_checkpoint_loses_one_chunk_and_the_run_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_COST", 0.0)
    breaking = BreakingPhysics()
    monkeypatch.setattr(physics, "_simulate", breaking)
    name, out = write(tmp_path, BALL.replace("ball", "breaking")), tmp_path / "run"  # no other test compiles this model
    learner = dataclasses.replace(SETTINGS["learner"], ppo=dataclasses.replace(PPO, iterations=4))
    settings = {**SETTINGS, "learner": learner, "num_seeds": 1, "until": "learn"}
    with pytest.raises(EnvError, match=r"robot.xml' has NaN in its state between iterations 2 and 3: its physics"):
        edl.run(name, out=out, progress=breaking, **settings)

    checkpoint = (out / store.CHECKPOINT).read_bytes()
    notes = tensors.notes_of(checkpoint, "the checkpoint")
    assert (notes["stage"], notes["iteration"]) == ("learn", 2)
    numbers = [x for x in tensors.arrays_of(checkpoint, "the checkpoint").values() if x.dtype == np.float32]
    assert numbers
    assert all(np.isfinite(x).all() for x in numbers)
    stopped = edl.load(out)
    assert stopped.states.samples.shape == (64, 2)
    assert stopped.skills is not None
    assert stopped.policy is None
    with pytest.raises(EnvError, match="between iterations 2 and 3"):
        edl.run(name, out=out, resume=True, **settings)
    assert (out / store.CHECKPOINT).read_bytes() == checkpoint

    breaking.broken = False
    resumed = edl.run(name, out=out, resume=True, **settings)
    for ours, never_broken in zip(
        jax.tree.leaves(resumed.policy), jax.tree.leaves(edl.run(name, **settings).policy), strict=True
    ):
        np.testing.assert_array_equal(ours, never_broken)

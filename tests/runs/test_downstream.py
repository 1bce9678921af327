"""Downstream tasks of runs with known skills in a gridworld: steps add up, results are shared, controllers reload."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl import baselines
from edl.artifacts import PickRule, SkillPolicy
from edl.config import ConfigError
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.explore.random_walk import RandomWalkConfig
from edl.hierarchy import ControlConfig
from edl.hierarchy.envs import skill_action_env
from edl.learn import LearnConfig
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.rl.sac import SACConfig
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.controllers import CONTROLLERS, Tasks, load_controllers, save_controllers
from edl.runs.downstream import compare_runs, downstream, pretraining_steps, zero_shot_codes
from edl.runs.downstream_table import COLUMNS, table_rows, to_markdown
from edl.runs.result import Run
from edl.runs.tasks import _pretraining
from edl.runtime import effort
from edl.runtime.effort import Effort
from tests.compiling import jit

HORIZON, ROLLOUTS, SEEDS = 8, 5, 2
PER_ITERATION = ROLLOUTS * HORIZON
STEPS = 2 * PER_ITERATION
SKILLS = 3
CONTROL = ControlConfig(env_steps=STEPS, hold=4, rollouts=ROLLOUTS, epochs=1, minibatches=1, hidden=(4,))
TASKS = Tasks(jnp.array([[3.0, 0.0], [0.0, 3.0]]), jnp.full(2, 0.5))
EDL_STEPS = {"explore": 3 * PER_ITERATION, "scout": PER_ITERATION, "learn": 4 * PER_ITERATION}


class RightOrStay(PickRule):
    """Picks a skill by its number: 1 for a target on the right, 0 otherwise."""

    rule = "the side of x"

    def __call__(self, target):
        return (target[0] > 1).astype(jnp.int32)


class TargetItself(PickRule):
    """A goal-conditioned method: the code is the target."""

    rule = "g = x"

    def __call__(self, target):
        return target


def make_run(method: str, steps: dict[str, int], path=None, pick=None) -> Run:
    """A run of two seeds. Skill i always takes action i: stay, right or up."""
    env = gridworld(9, 9, HORIZON)
    policy = SkillPolicy(
        MLP([jnp.concatenate([jnp.zeros((2, 5)), jnp.eye(5)[:SKILLS]])], [jnp.zeros(5)]),
        identity_normaliser(2),
        Categorical(5),
        50.0 * jnp.eye(SKILLS),
        pick=pick,
    )
    policy = jax.tree.map(lambda leaf: jnp.stack([leaf] * SEEDS), policy)
    config = RunConfig(env="grid", method=method, num_seeds=SEEDS, num_skills=SKILLS)
    if method == "edl":
        config = dataclasses.replace(config, learner=LearnConfig(distance="walking"), scout=RandomWalkConfig())
    return Run(config=config, env=env, layout=None, policy=policy, metrics={"steps": steps}, path=path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("downstream") / "edl"
    store.create(path).write_json(store.CONFIG, {})
    return path


@pytest.fixture(scope="module")
def outcomes(folder):
    runs = {
        "a": make_run("edl", EDL_STEPS, folder),
        "b": make_run("diayn", {"learn": 8 * PER_ITERATION, "total": 1}),  # as many steps as the first
        "c": make_run("metra", {"learn": PER_ITERATION + 1}),
    }
    progress = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])  # compiling takes most of the time
        found = dict(compare_runs(runs, CONTROL, TASKS, on_progress=lambda *each: progress.append(each)))
    return runs, found, progress


def test_pretraining_steps_are_those_of_the_stages():
    assert pretraining_steps(make_run("edl", EDL_STEPS)) == EDL_STEPS
    assert pretraining_steps(make_run("diayn", {"learn": 7, "total": 9})) == {"learn": 7}
    for metrics in (None, {}, {"steps": {}}):
        with pytest.raises(ConfigError, match="does not record the environment steps"):
            pretraining_steps(dataclasses.replace(make_run("diayn", {}), metrics=metrics))


def test_a_run_that_has_only_explored_has_cost_the_steps_of_its_explorer(tmp_path):
    """The skills of METRA's tasks may be the goals of the explorer's policy."""
    assert _pretraining(make_run("edl", EDL_STEPS)) == sum(EDL_STEPS.values())
    explored = dataclasses.replace(make_run("edl", {"explore": 7}), policy=None)
    assert _pretraining(explored) == 7
    for steps, expected in ((9, 9), (None, None)):  # progress.json is all there is before the evaluation
        path = tmp_path / str(steps)
        folder = store.create(path)
        folder.write_json(store.CONFIG, {})
        if steps is not None:
            facts = {"seconds": 1.0, "compile_seconds": 1.0, "env_steps": steps}
            folder.write_json(store.PROGRESS, {"explore": facts})
        assert _pretraining(dataclasses.replace(explored, metrics=None, path=path)) == expected


def test_steps_add_up_and_the_full_budget_of_flat_ppo_is_the_total(outcomes):
    _, found, _ = outcomes
    for name, pretraining in (("a", 8 * PER_ITERATION), ("b", 8 * PER_ITERATION), ("c", PER_ITERATION + 1)):
        result = found[name].result
        steps = result["steps"]
        assert sum(steps["pretraining"].values()) == pretraining
        assert (steps["controller"], result["env_steps"], steps["total"]) == (STEPS, STEPS, pretraining + STEPS)
        assert result["flat"]["env_steps"] == STEPS
        assert result["controller"]["curve"]["env_steps"][-1] == STEPS
        assert result["flat_full"]["curve"]["env_steps"][-1] == result["flat_full"]["env_steps"]
    assert found["a"].result["flat_full"]["env_steps"] == 10 * PER_ITERATION
    assert found["c"].result["flat_full"]["env_steps"] == 4 * PER_ITERATION  # 3 iterations and one step, rounded up


def test_flat_ppo_is_trained_once_per_number_of_steps(outcomes):
    _, found, progress = outcomes
    assert {(run, name) for run, name, share in progress if share == 1 and name.startswith("flat")} == {
        ("a", "flat"),
        ("a", "flat_full"),
        ("c", "flat_full"),
    }
    assert found["b"].result["flat_full"] is found["a"].result["flat_full"]
    assert found["c"].result["flat"] is found["a"].result["flat"]


def test_table_has_two_rows_per_run_and_one_per_budget_of_flat_ppo(outcomes):
    _, found, _ = outcomes
    rows = table_rows({name: outcome.result for name, outcome in found.items()})
    assert [(row.learner, row.pretraining, row.task) for row in rows] == [
        ("a: controller", 8 * PER_ITERATION, STEPS),
        ("a: zero-shot", 8 * PER_ITERATION, 0),
        ("b: controller", 8 * PER_ITERATION, STEPS),
        ("b: zero-shot", 8 * PER_ITERATION, 0),
        ("c: controller", PER_ITERATION + 1, STEPS),
        ("c: zero-shot", PER_ITERATION + 1, 0),
        ("PPO without skills", 0, STEPS),
        ("PPO without skills, total of c", 0, 4 * PER_ITERATION),
        ("PPO without skills, total of a, b", 0, 10 * PER_ITERATION),
    ]
    lines = to_markdown({"a": found["a"].result}).splitlines()
    assert len(lines) == 2 + 4
    assert all(line.count("|") == len(COLUMNS) + 1 for line in lines)
    assert f"| {8 * PER_ITERATION:,} | {STEPS:,} | {10 * PER_ITERATION:,} |" in lines[2]
    assert "| 1.000 [1.000, 1.000] | - |" in lines[3]  # zero-shot


def test_intervals_are_over_seeds(outcomes):
    _, found, _ = outcomes
    controller = found["a"].result["controller"]
    assert len(controller["per_seed"]) == SEEDS
    low, high = controller["ci95"]
    assert min(controller["per_seed"]) <= low <= controller["success"] <= high <= max(controller["per_seed"])


def test_reloaded_controllers_choose_the_same_skills(outcomes):
    runs, found, _ = outcomes
    trained = found["a"].controllers
    save_controllers(runs["a"], trained)
    loaded = load_controllers(runs["a"])
    assert loaded.config == CONTROL
    np.testing.assert_array_equal(loaded.tasks.goals, TASKS.goals)
    np.testing.assert_array_equal(loaded.tasks.radius, TASKS.radius)
    keys = jax.random.split(jax.random.key(0), 50)
    for seed, task in ((0, 0), (0, 1), (1, 0)):
        before, after = (
            jax.vmap(lambda key, x=x, seed=seed, task=task: x.choose(key, jnp.array([1.0, 2.0]), seed, task))(keys)
            for x in (trained, loaded)
        )
        np.testing.assert_array_equal(before, after)
        assert set(np.asarray(after)) == set(range(SKILLS))  # barely trained: all skills have a probability


def test_damaged_or_missing_controllers_are_rejected(outcomes, folder):
    runs, found, _ = outcomes
    run = runs["a"]
    with pytest.raises(ConfigError, match="has no controllers"):
        load_controllers(runs["b"])
    save_controllers(run, found["a"].controllers)
    fewer = dataclasses.replace(run, config=dataclasses.replace(run.config, num_seeds=1))
    fewer = dataclasses.replace(fewer, policy=jax.tree.map(lambda leaf: leaf[:1], run.policy))
    with pytest.raises(ConfigError, match="does not belong to this run's config"):
        load_controllers(fewer)
    store.Folder(folder).save(CONTROLLERS, found["a"].controllers.policy, {"goals": [[0.0, 0.0]]})
    with pytest.raises(ConfigError, match="is damaged"):
        load_controllers(run)


def test_zero_shot_plays_what_the_run_picks():
    def codes(pick):
        return zero_shot_codes(make_run("skewfit", {"learn": 1}, pick=pick), 1, TASKS)

    np.testing.assert_array_equal(codes(RightOrStay()), 50 * np.eye(SKILLS)[[1, 0]])
    np.testing.assert_array_equal(codes(TargetItself()), TASKS.goals)
    np.testing.assert_array_equal(codes(None), 50 * np.eye(SKILLS)[[1, 2]])  # practice ends at (4, 0) and (0, 4)


@pytest.mark.parametrize("method", ["skewfit", "discern"])
def test_actions_over_a_goal_conditioned_method_are_its_example_goals(method):
    env, tiny = maze("square", HORIZON), SACConfig(iterations=1, rollouts=1, hidden=(4,), capacity=1000)
    build = baselines.METHODS[method]
    settings = {"num_skills": SKILLS, "sac": tiny, "memory": 64}
    size = {"skewfit": {"fitted_to": 16}, "discern": {"num_goals": 16, "hidden": (4,)}}[method]
    program = build.build(env, build.config(**settings, **size))
    policy = jit(lambda key: program.finish(program.init(key)))(jax.random.key(0))
    task = skill_action_env(env, policy, hold=3)
    assert task.action_space.n == SKILLS
    np.testing.assert_array_equal(policy.codes, policy.goals)
    # The action k plays pi(a|s, g_k) for three steps.
    key, state = jax.random.key(1), task.reset(jax.random.key(2))
    state, played = state.inner, task.step(key, state, jnp.int32(1)).state.inner
    for each in jax.random.split(key, 3):
        act_key, step_key = jax.random.split(each)
        state = env.step(step_key, state, policy.act(act_key, env.observe(state), policy.goals[1])).state
    jax.tree.map(np.testing.assert_allclose, played, state)
    # Without a controller, the method gets the goal of the task.
    lanes = jax.tree.map(lambda leaf: jnp.stack([leaf] * SEEDS), policy)
    run = dataclasses.replace(make_run(method, {"learn": 1}), env=env, policy=lanes)
    np.testing.assert_array_equal(zero_shot_codes(run, 0, TASKS), TASKS.goals)


def test_success_of_known_skills(outcomes):
    _, found, _ = outcomes
    zero_shot = found["b"].result["zero_shot"]  # right passes (3, 0), and up passes (0, 3)
    assert (zero_shot["per_task"], zero_shot["ci95"]) == ([1.0, 1.0], [1.0, 1.0])


def test_runs_that_cannot_be_compared_are_rejected():
    run = make_run("diayn", {"learn": 1})
    longer = dataclasses.replace(run, env=gridworld(9, 9, 2 * HORIZON))
    elsewhere = dataclasses.replace(run, config=dataclasses.replace(run.config, env="tree"))
    for other, message in (
        (longer, f"the same horizon .got {2 * HORIZON} steps in 'b' and {HORIZON}"),
        (elsewhere, "in the same env .got 'b' in 'tree' and the first run in 'grid'"),
        (dataclasses.replace(run, policy=None), "'b' has no policy"),
        (dataclasses.replace(run, metrics={}), "does not record the environment steps"),
        (
            dataclasses.replace(run, failed={1: "stage 'learn': NaN"}),
            r"seeds that failed \(seed 1: stage 'learn': NaN\)",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            next(compare_runs({"a": run, "b": other}, CONTROL, TASKS))
    with pytest.raises(ConfigError, match=r"hold must divide the 8 steps of an episode \(got 3\)"):
        downstream(run, dataclasses.replace(CONTROL, hold=3), TASKS)

"""Programs that are compiled ahead are exactly the programs that a run needs: nothing is compiled twice."""

import dataclasses
import threading

import jax
import jax.numpy as jnp
import pytest

from edl.baselines.reverse_mi import ReverseMIConfig
from edl.baselines.skewfit import SkewFitConfig
from edl.baselines.valor import VALORConfig
from edl.envs.gridworld import gridworld
from edl.explore.random_walk import RandomWalkConfig
from edl.interop.env_names import remember_factory
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.rl.sac import SACConfig
from edl.runs import executables
from edl.runs.compile_ahead import compilations, compile_ahead
from edl.runs.config import RunConfig
from edl.runs.evaluation import evaluate_run
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import outlines
from edl.runs.progress import SilentProgress
from edl.runs.resolve import make_context, resolve_config
from edl.runs.result import run_of
from edl.runs.session import Session

PPO = PPOConfig(iterations=40, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
CONFIG = resolve_config(
    RunConfig(
        explore="random_walk",
        explorer=RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
        discover="kmeans",
        num_skills=3,
        learner=LearnConfig(distance="euclidean", ppo=PPO),
    )
)
"""As in the CLI tests, whose compiled programs are on disk."""


@pytest.fixture
def compiled(monkeypatch):
    """The names of the functions that are compiled, as in a process that has not compiled any."""
    monkeypatch.setattr(executables, "_executables", {})
    names, compile_now = [], executables.compile_now

    def counted(function, *request):
        names.append(function.__name__)
        return compile_now(function, *request)

    monkeypatch.setattr(executables, "compile_now", counted)
    return names


def tiles():
    """An env without a maze."""
    return gridworld(9, 9, 8)


@pytest.mark.parametrize("in_maze", [True, False])
def test_stages_and_evaluation_use_the_programs_that_were_compiled_ahead(compiled, in_maze):
    config = CONFIG
    if not in_maze:
        explorer = RandomWalkConfig(iterations=4, rollouts=64, num_samples=2500)  # not a multiple of the targets
        learner = LearnConfig(distance="normalised", reward="visits", ppo=PPO)
        changed = RunConfig(env=remember_factory(tiles), explore="random_walk", explorer=explorer, num_skills=3)
        config = resolve_config(dataclasses.replace(changed, discover="kmeans", learner=learner))
    context = make_context(config)
    for compile in compilations(config, context, "learn", ()):
        compile()
    ahead = len(compiled)
    session = Session(config, context, None, Interrupt(), SilentProgress())
    artifacts = session.run_stages("learn")
    assert len(compiled) == ahead + 3  # init, chunk and finish of the first stage, which is not compiled ahead
    assert len(evaluate_run(run_of(config, context, artifacts, None)).per_seed) == 1
    assert len(compiled) == ahead + 3


@pytest.mark.parametrize(
    ("method", "num_skills", "baseline", "picking"),
    [
        ("reverse_mi", 7, ReverseMIConfig(ppo=PPO), {"pick_seeds"}),
        pytest.param(
            *("skewfit", 9, SkewFitConfig(sac=SACConfig(iterations=2, hidden=(8,))), {"play_picked_seeds"}),
            marks=pytest.mark.slow,
        ),
        pytest.param("valor", 11, VALORConfig(hidden_size=8, ppo=PPO), set(), marks=pytest.mark.slow),
    ],
)
def test_the_evaluation_of_a_baseline_uses_the_programs_that_were_compiled_ahead(
    compiled, method, num_skills, baseline, picking
):
    config = resolve_config(RunConfig(method=method, num_skills=num_skills, baseline=baseline))
    context = make_context(config)
    for compile in compilations(config, context, "learn", ()):
        compile()
    # Rollouts of the skills, rollouts of random actions, the discriminability, and how a skill is picked.
    expected = {"play_seeds", "_play_random_actions", "discriminate_seeds"} | picking
    assert set(compiled) == expected
    policy = outlines(config, context)["learn"].artifact
    policy = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), policy)
    assert len(evaluate_run(run_of(config, context, {"learn": policy}, None)).per_seed) == 1
    assert len(compiled) == len(expected)


def test_nothing_is_compiled_ahead_if_the_states_are_on_disk():
    assert list(compilations(CONFIG, make_context(CONFIG), "learn", ("explore",))) == []


def test_errors_are_left_to_the_stage_that_needs_the_program(monkeypatch):
    called = threading.Event()

    def broken(*_):
        called.set()
        raise RuntimeError("out of memory")

    config = resolve_config(dataclasses.replace(CONFIG, num_skills=8))  # as in no other test
    monkeypatch.setattr(executables, "compile_now", broken)
    with compile_ahead(config, make_context(config), "learn", ()):
        assert called.wait(60)

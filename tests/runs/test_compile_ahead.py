"""Programs that are compiled ahead are exactly the programs that a run needs: nothing is compiled twice."""

import jax
import jax.numpy as jnp
import pytest

from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
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

PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
CONFIG = resolve_config(
    RunConfig(
        explore="random_walk",
        explorer=RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
        discover="kmeans",
        num_skills=3,
        learner=LearnConfig(distance="euclidean", ppo=PPO),
    )
)


@pytest.fixture
def compiled(monkeypatch):
    """The names of the functions that are compiled."""
    names, compile_now = [], executables.compile_now

    def counted(function, *request):
        names.append(function.__name__)
        return compile_now(function, *request)

    monkeypatch.setattr(executables, "compile_now", counted)
    return names


def test_stages_find_what_was_compiled_ahead(compiled):
    context = make_context(CONFIG)
    for compile in compilations(CONFIG, context, "learn", ()):
        compile()
    ahead = len(compiled)
    session = Session(CONFIG, context, None, Interrupt(), SilentProgress())
    artifacts = session.run_stages("learn")
    assert len(compiled) == ahead + 3  # init, chunk and finish of the first stage, which is not compiled ahead
    assert len(evaluate_run(run_of(CONFIG, context, artifacts, None)).per_seed) == 1
    assert len(compiled) == ahead + 3


def test_the_evaluation_of_a_baseline_finds_what_was_compiled_ahead(compiled):
    baseline = {"ppo": PPO}
    config = resolve_config(RunConfig(method="reverse_mi", num_skills=3))
    config = resolve_config(RunConfig(method="reverse_mi", num_skills=3, baseline=type(config.baseline)(**baseline)))
    context = make_context(config)
    for compile in compilations(config, context, "learn", ()):
        compile()
    assert sorted(compiled) == ["_play_random_actions", "discriminate_seeds", "play_seeds"]
    policy = outlines(config, context)["learn"].artifact
    policy = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), policy)
    evaluate_run(run_of(config, context, {"learn": policy}, None))
    assert len(compiled) == 3


def test_finished_stages_are_not_compiled_and_errors_are_left_to_the_stage(monkeypatch):
    context = make_context(CONFIG)
    assert list(compilations(CONFIG, context, "learn", ("explore",))) == []

    def broken(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(executables, "compile_now", broken)
    with compile_ahead(CONFIG, context, "learn", ()):
        pass

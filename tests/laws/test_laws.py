"""What holds for every method: it is a pure function of a key and a config, and its result can be kept."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel, SkillPolicy, States
from edl.runs.store import CHECKPOINT, Folder
from edl.program import Program, keys_of
from tests.compiling import jit
from tests.laws.cases import CASES, ENV, HORIZON, Case

KEYS = jax.random.split(jax.random.key(5), 2)


class Outcome(NamedTuple):
    """Where a program got to, what it made of that, and what it reported."""

    state: Any
    artifact: Any
    metrics: dict[str, jax.Array]


class Law(NamedTuple):
    """A method, compiled once: ``run(config, key)``; and how often it was traced so far."""

    case: Case
    program: Program
    run: Any
    traces: list
    outcome: Outcome


def play(program, key):
    first, rest = keys_of(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(first), rest)
    return Outcome(state, program.finish(state), metrics)


@pytest.fixture(scope="module", params=CASES, ids=str)
def law(request):
    case, traces = request.param, []

    @jit
    def run(inputs, config, key):
        traces.append(config)
        return play(case.build(*inputs, config), key)

    outcome = run(case.inputs, case.config, KEYS[0])
    return Law(case, case.build(*case.inputs, case.config), run, traces, outcome)


def data(tree):
    """Leaves as numpy arrays, keys as their bits."""
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]


def test_one_trace_serves_all_floats_and_the_same_key_gives_the_same(law):
    case = law.case
    again = law.run(case.inputs, case.config, KEYS[0])
    law.run(case.inputs, jax.tree.map(lambda x: 0.9 * x, case.config), KEYS[1])
    assert len(law.traces) == 1
    for one, other in zip(data(law.outcome), data(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_seed_alone_equals_that_seed_among_others(law):
    case = law.case
    together = jit(jax.vmap(lambda key: play(case.build(*case.inputs, case.config), key)))(KEYS)
    pairs = list(zip(data(law.outcome), data(together), strict=True))
    for alone, among in pairs:
        np.testing.assert_allclose(among[0], alone, rtol=1e-3, atol=1e-4)
    assert any(not np.array_equal(among[0], among[1]) for _, among in pairs)  # and no other seed is the same


def test_metrics_are_a_flat_dict_of_scalars(law):
    program, metrics = law.program, law.outcome.metrics
    assert all(isinstance(name, str) for name in metrics)
    assert all(series.shape == (program.iterations,) for series in metrics.values())
    assert all(np.isfinite(series).all() for series in metrics.values())
    assert (type(program.iterations), type(program.env_steps)) == (int, int)


def test_results_are_finite_and_of_float32(law):
    for leaf in data(law.outcome.artifact):
        assert leaf.dtype in (np.float32, np.int32, np.uint32, np.bool_)
        assert np.isfinite(leaf).all()


def test_what_was_saved_is_loaded(law, tmp_path):
    folder, outcome = Folder(tmp_path), law.outcome
    for name, tree in (("artifact.safetensors", outcome.artifact), (CHECKPOINT, outcome.state)):
        folder.save(name, tree)
        loaded = folder.load(name, jax.eval_shape(lambda tree=tree: tree), finite=False)
        assert jax.tree.structure(loaded) == jax.tree.structure(tree)
        for one, other in zip(data(tree), data(loaded), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def check_states(law: Law, states: States) -> None:
    assert states.samples.shape == (law.case.config.num_samples, 2)
    if states.experience is None:
        assert law.program.env_steps == 0
        return
    paths, lengths = np.asarray(states.experience.paths), np.asarray(states.experience.lengths)
    assert (lengths <= HORIZON).all()
    real = paths[np.arange(HORIZON + 1) <= np.where(lengths > 0, lengths, -1)[:, None]]
    assert {tuple(s) for s in np.asarray(states.samples)} <= {tuple(s) for s in real}
    claimed = law.program.iterations * law.program.env_steps
    # An explorer may play a batch before its first iteration.
    assert claimed <= lengths.sum() <= claimed + law.program.env_steps


def check_skills(law: Law, skills: SkillModel) -> None:
    assert skills.num_skills == law.case.config.num_skills == len(skills.goals) == len(skills.decoded)
    assert skills.usage.sum() == pytest.approx(1.0, abs=1e-5)
    drawn = skills.sample(KEYS[0])
    assert drawn.code.shape == skills.codes.shape[1:]
    assert drawn.goal.shape == (2,)


def check_policy(law: Law, policy: SkillPolicy) -> None:
    space = ENV.action_space
    for action in (policy.act(KEYS[0], jnp.ones(2), policy.codes[0]), policy.mode(jnp.ones(2), policy.codes[0])):
        assert jnp.all((action >= space.low) & (action <= space.high))


CHECKS = {"explore": check_states, "discover": check_skills, "baselines": check_policy, "learn": check_policy}


def test_the_result_is_what_the_next_stage_takes(law):
    CHECKS[law.case.stage](law, law.outcome.artifact)


EXPLORERS = [case for case in CASES if case.stage == "explore"]


@pytest.mark.parametrize("law", EXPLORERS, ids=str, indirect=True)
def test_every_explorer_respects_a_region(law):
    config = dataclasses.replace(law.case.config, region=to_the_right)
    program = law.case.build(ENV, config)
    if program.env_steps:  # what was explored does not depend on the region, what is handed over does
        states = jit(program.finish)(law.outcome.state)
    else:
        states = jit(lambda key: play(program, key).artifact)(KEYS[0])
    assert states.samples.shape == (config.num_samples, 2)
    assert states.samples[:, 0].min() > 0.1


def to_the_right(state):
    """In the maze's start cell, and to the right of its middle."""
    return state[0] > 0.1

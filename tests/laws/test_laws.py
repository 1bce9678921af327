"""Laws for every method: it is a pure function of a key and a config, and its result can be saved and loaded."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel, SkillPolicy, States
from edl.program import Program, program_keys
from edl.runs.store import CHECKPOINT, Folder
from tests.compiling import jit
from tests.laws.cases import CASES, ENV, HORIZON, Case

KEYS = jax.random.split(jax.random.key(5), 2)


class Outcome(NamedTuple):
    """The last state of a program, its artifact and its metrics."""

    state: Any
    artifact: Any
    metrics: dict[str, jax.Array]


class Law(NamedTuple):
    """A method that is compiled once, as ``run(inputs, config, key)``. ``traces`` has one entry per trace."""

    case: Case
    program: Program
    run: Any
    traces: list
    outcome: Outcome


def run_to_outcome(program, key):
    init_key, step_keys = program_keys(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(init_key), step_keys)
    return Outcome(state, program.finish(state), metrics)


@pytest.fixture(scope="module", params=CASES, ids=str)
def law(request):
    case, traces = request.param, []

    @jit
    def run(inputs, config, key):
        traces.append(config)
        return run_to_outcome(case.build(*inputs, config), key)

    outcome = run(case.inputs, case.config, KEYS[0])
    return Law(case, case.build(*case.inputs, case.config), run, traces, outcome)


def data(tree):
    """The leaves as numpy arrays; random keys as their data."""
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]


def test_floats_share_one_trace_and_equal_keys_give_equal_results(law):
    case = law.case
    again = law.run(case.inputs, case.config, KEYS[0])
    law.run(case.inputs, jax.tree.map(lambda x: 0.9 * x, case.config), KEYS[1])
    assert len(law.traces) == 1
    for one, other in zip(data(law.outcome), data(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_seed_alone_equals_that_seed_in_a_batch(law):
    case = law.case
    batch = jit(jax.vmap(lambda key: run_to_outcome(case.build(*case.inputs, case.config), key)))(KEYS)
    pairs = list(zip(data(law.outcome), data(batch), strict=True))
    for alone, batched in pairs:
        np.testing.assert_allclose(batched[0], alone, rtol=1e-3, atol=1e-4)
    assert any(not np.array_equal(batched[0], batched[1]) for _, batched in pairs)  # seeds differ


def test_metrics_are_a_flat_dict_of_scalars(law):
    program, metrics = law.program, law.outcome.metrics
    assert all(isinstance(name, str) for name in metrics)
    assert all(series.shape == (program.iterations,) for series in metrics.values())
    assert all(np.isfinite(series).all() for series in metrics.values())
    assert (type(program.iterations), type(program.env_steps)) == (int, int)


def test_results_are_finite_and_single_precision(law):
    for leaf in data(law.outcome.artifact):
        assert leaf.dtype in (np.float32, np.int32, np.uint32, np.bool_)
        assert np.isfinite(leaf).all()


def test_saving_and_loading_is_the_identity(law, tmp_path):
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
    declared = law.program.iterations * law.program.env_steps
    # An explorer may play one batch before its first iteration.
    assert declared <= lengths.sum() <= declared + law.program.env_steps


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


def test_the_result_is_a_valid_artifact(law):
    CHECKS[law.case.stage](law, law.outcome.artifact)


EXPLORERS = [case for case in CASES if case.stage == "explore"]


@pytest.mark.parametrize("law", EXPLORERS, ids=str, indirect=True)
def test_every_explorer_respects_a_region(law):
    config = dataclasses.replace(law.case.config, region=to_the_right)
    program = law.case.build(*law.case.inputs, config)
    if program.env_steps:  # only the samples depend on the region, the experience does not
        states = jit(program.finish)(law.outcome.state)
    else:
        states = jit(lambda key: run_to_outcome(program, key).artifact)(KEYS[0])
    assert states.samples.shape == (config.num_samples, 2)
    assert states.samples[:, 0].min() > 0.1


def to_the_right(state):
    """The right part of the maze, which includes half of the start cell."""
    return state[0] > 0.1

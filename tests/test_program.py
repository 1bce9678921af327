"""Programs, their keys, and early stopping."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.program import Program, one_shot, program_keys, run_program, stop_at_target

KEY = jax.random.key(3)


def draws(iterations):
    """A program that returns the key of ``init`` and the sum of random numbers drawn with the keys of ``step``."""

    def step(state, key):
        draw = jax.random.normal(key)
        return {**state, "sum": state["sum"] + draw}, {"draw": draw}

    return Program(
        lambda key: {"first": key, "sum": 0.0}, step, lambda state: (state["first"], state["sum"]), iterations
    )


def test_run_program_scans_the_step():
    (init_key, total), metrics = run_program(draws(5), KEY)
    expected_key, step_keys = program_keys(KEY, 5)
    assert init_key == expected_key
    np.testing.assert_allclose(metrics["draw"], jax.vmap(jax.random.normal)(step_keys), rtol=1e-6)
    np.testing.assert_allclose(total, jnp.sum(metrics["draw"]), rtol=1e-6)


def test_all_keys_differ():
    init_key, step_keys = program_keys(KEY, 100)
    data = jax.random.key_data(jnp.concatenate([KEY[None], init_key[None], step_keys]))
    assert len(np.unique(data, axis=0)) == 102


def test_a_one_shot_program_computes_its_result_in_init():
    program = one_shot(lambda key: jax.random.uniform(key, (2,)))
    result, metrics = run_program(program, KEY)
    np.testing.assert_array_equal(result, jax.random.uniform(program_keys(KEY, 1)[0], (2,)))
    assert metrics == {}
    assert (program.iterations, program.env_steps) == (1, 0)


def counting(iterations):
    """A program that counts its steps and reports the count as a metric."""

    def step(count, key):
        return count + 1, {"count": (count + 1).astype(jnp.float32)}

    return Program(lambda key: jnp.int32(0), step, lambda count: count, iterations, env_steps=7)


@pytest.mark.parametrize(("target", "stopped_at"), [(2.0, 3), (2.25, 3), (2.3, 4), (99.0, 10)])
def test_the_state_is_frozen_once_the_running_mean_reaches_the_target(target, stopped_at):
    # With rate 1/2 the running mean of 1, 2, 3, 4 from 0 is 0.5, 1.25, 2.125, 3.0625.
    stopping = stop_at_target(counting(10), "count", target - 0.125, rate=0.5)
    count, metrics = run_program(stopping, KEY)
    assert count == stopped_at
    done = np.arange(1, 11) >= stopped_at if target < 99 else np.zeros(10)
    np.testing.assert_array_equal(metrics["done"], done)
    assert (stopping.iterations, stopping.env_steps) == (10, 7)

"""However a program is run, it gets the same keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.program import Program, execute, instant, keys_of, until

KEY = jax.random.key(3)


def draws(iterations):
    """Remembers the key of ``init`` and sums what the keys of ``step`` draw."""

    def step(state, key):
        draw = jax.random.normal(key)
        return {**state, "sum": state["sum"] + draw}, {"draw": draw}

    return Program(
        lambda key: {"first": key, "sum": 0.0}, step, lambda state: (state["first"], state["sum"]), iterations
    )


def test_a_program_is_the_scan_of_its_step():
    (first, total), metrics = execute(draws(5), KEY)
    expected_first, rest = keys_of(KEY, 5)
    assert first == expected_first
    np.testing.assert_allclose(metrics["draw"], jax.vmap(jax.random.normal)(rest), rtol=1e-6)
    np.testing.assert_allclose(total, jnp.sum(metrics["draw"]), rtol=1e-6)


def test_all_keys_differ():
    first, rest = keys_of(KEY, 100)
    data = jax.random.key_data(jnp.concatenate([KEY[None], first[None], rest]))
    assert len(np.unique(data, axis=0)) == 102


def test_an_instant_program_has_nothing_to_repeat():
    program = instant(lambda key: jax.random.uniform(key, (2,)))
    result, metrics = execute(program, KEY)
    np.testing.assert_array_equal(result, jax.random.uniform(keys_of(KEY, 1)[0], (2,)))
    assert metrics == {}
    assert (program.iterations, program.env_steps) == (1, 0)


def counting(iterations):
    """Counts its steps; the metric is how many there were."""

    def step(count, key):
        return count + 1, {"count": (count + 1).astype(jnp.float32)}

    return Program(lambda key: jnp.int32(0), step, lambda count: count, iterations, env_steps=7)


@pytest.mark.parametrize(("target", "stopped_at"), [(2.0, 3), (2.25, 3), (2.3, 4), (99.0, 10)])
def test_a_program_stops_once_a_metric_is_good_enough(target, stopped_at):
    # With rate 1/2 the running mean of 1, 2, 3, 4 from 0 is 0.5, 1.25, 2.125, 3.0625.
    watched = until(counting(10), "count", target - 0.125, rate=0.5)
    count, metrics = execute(watched, KEY)
    assert count == stopped_at
    done = np.arange(1, 11) >= stopped_at if target < 99 else np.zeros(10)
    np.testing.assert_array_equal(metrics["done"], done)
    assert (watched.iterations, watched.env_steps) == (10, 7)

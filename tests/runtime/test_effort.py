"""Compile effort: it does not change results, and unknown compiler options are left out."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.runtime import effort
from edl.runtime.effort import Effort, is_known, options, quick_jit


@pytest.mark.parametrize("how", Effort)
def test_the_result_is_the_same(how):
    def function(x):
        return jnp.cumsum(jnp.sin(x) * 2.0 + 1.0), jnp.argsort(x), x @ x.T

    x = jax.random.normal(jax.random.key(0), (5, 7))
    tuned = jax.jit(function, compiler_options=options(how))(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), tuned, jax.jit(function)(x))


def test_options_are_none_until_effort_is_enabled():
    code = (
        "from edl.runtime.effort import Effort, enable, options; before = options(Effort.LEAST); enable(); "
        "print(before, options(Effort.LEAST) is None)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["None", "False"]


def test_options_unknown_to_this_compiler_are_left_out(monkeypatch):
    monkeypatch.setitem(effort.OPTIONS, Effort.LESS, {"xla_of_another_year": True, "xla_backend_optimization_level": 1})
    assert not is_known("xla_of_another_year", True)
    assert options(Effort.LESS) == {"xla_backend_optimization_level": 1}
    monkeypatch.setitem(effort.OPTIONS, Effort.LESS, {"xla_of_another_year": True})
    assert options(Effort.LESS) is None


def test_there_are_no_options_on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert options(Effort.LEAST) is None


def test_quick_jit_returns_the_same_function_every_time():
    def scaled(x, by):
        return x * by

    assert quick_jit(scaled, "by") is quick_jit(scaled, "by")
    assert quick_jit(scaled, "by")(jnp.float32(2.0), by=3) == 6.0

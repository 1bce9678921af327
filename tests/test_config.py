"""A config is frozen, and a pytree of its floats."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from edl.config import ConfigError, check, config


@config
class Inner:
    rate: float = 0.5
    size: int = 3


@config
class Outer:
    scale: float = 2.0
    limit: float | None = None
    name: str = "a"
    flags: tuple[int, ...] = (1, 2)
    inner: Inner = Inner()
    perhaps: Inner | None = None


def test_floats_and_nested_configs_are_leaves_and_nothing_else_is():
    leaves = jax.tree_util.tree_leaves_with_path(Outer(limit=1.0, perhaps=Inner(rate=7.0)))
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    assert named == {"scale": 2.0, "limit": 1.0, "inner.rate": 0.5, "perhaps.rate": 7.0}


def test_unflattening_gives_the_config_back():
    original = Outer(scale=3.0, name="b", inner=Inner(size=9))
    assert jax.tree.map(lambda x: x, original) == original


def test_is_frozen_and_takes_keywords_alone():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outer().scale = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Outer(1.0)  # type: ignore[misc]


def test_one_program_serves_all_floats_and_each_static_setting_has_its_own():
    traces = []

    @jax.jit
    def f(settings):
        traces.append(settings.name)
        return settings.scale * settings.inner.rate * settings.inner.size

    assert [f(Outer(scale=1.0)), f(Outer(scale=4.0)), f(Outer(inner=Inner(rate=1.0)))] == [1.5, 6.0, 6.0]
    assert traces == ["a"]
    f(Outer(name="b"))
    f(Outer(inner=Inner(size=4)))
    assert traces == ["a", "b", "a"]


def test_a_sweep_is_a_vmap_over_a_config():
    rates = jnp.array([1.0, 2.0, 3.0])
    swept = Outer(scale=rates, inner=Inner(rate=10 * rates))  # type: ignore[arg-type]
    products = jax.vmap(lambda settings: settings.scale * settings.inner.rate)(swept)
    assert products.tolist() == [10.0, 40.0, 90.0]


def test_an_error_says_what_was_got_what_was_wanted_and_the_remedy():
    check(True, "got", "wanted", "remedy")
    with pytest.raises(ConfigError, match=r"num_skills=500: at most 64 are wanted\. Ask for fewer\."):
        check(False, "num_skills=500", "at most 64 are wanted", "Ask for fewer.")
    assert issubclass(ConfigError, ValueError)

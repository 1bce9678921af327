"""A config is a frozen dataclass, and a pytree whose leaves are its floats."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from edl.config import ConfigError, check, check_name, check_numbers, config


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
    optional: Inner | None = None


def test_only_floats_and_nested_configs_are_leaves():
    leaves = jax.tree_util.tree_leaves_with_path(Outer(limit=1.0, optional=Inner(rate=7.0)))
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    assert named == {"scale": 2.0, "limit": 1.0, "inner.rate": 0.5, "optional.rate": 7.0}


def test_unflattening_restores_the_config():
    original = Outer(scale=3.0, name="b", inner=Inner(size=9))
    assert jax.tree.map(lambda x: x, original) == original


def test_a_config_is_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outer().scale = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Outer(1.0)  # type: ignore[misc]


def test_floats_share_a_trace_and_static_fields_do_not():
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


def test_check_raises_the_message():
    check(True, "not raised")
    with pytest.raises(ConfigError, match=r"^num_skills must be at most 64 \(got 500\)\. Use fewer skills\.$"):
        check(False, "num_skills must be at most 64 (got 500). Use fewer skills.")
    assert issubclass(ConfigError, ValueError)


def test_check_name_suggests_the_closest_name():
    check_name("square", ["square", "tree"], "env")
    expected = r"^unknown env 'sqare'\. Did you mean 'square'\? Available: square, tree\. See the docs\.$"
    with pytest.raises(ConfigError, match=expected):
        check_name("sqare", ["square", "tree"], "env", hint="See the docs.")
    with pytest.raises(ConfigError, match=r"^unknown env 'xyz'\. Available: square, tree\.$"):
        check_name("xyz", ["square", "tree"], "env")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Outer(inner=Inner(size=0)), r"inner\.size must be an integer of at least 1 \(got 0\)"),
        (Outer(scale=-1.0), r"scale must be at least 0 \(got -1\.0\)"),
        (Outer(scale=float("nan")), r"scale must be a number \(got nan\)"),
        (Outer(scale=float("inf")), r"scale must be a finite number \(got inf\)"),
        (Outer(flags=(1, 0)), r"flags must be integers of at least 1 \(got \(1, 0\)\)"),
        (Outer(scale=-1), r"scale must be at least 0 \(got -1\)"),
        (Outer(scale=True), r"scale must be a number \(got True\)"),
        (Outer(inner=Inner(size=10.5)), r"inner\.size must be an integer of at least 1 \(got 10\.5\)"),
        (Outer(inner=Inner(size=True)), r"inner\.size must be an integer of at least 1 \(got True\)"),
    ],
)
def test_check_numbers_rejects_numbers_out_of_range(settings, message):
    check_numbers(Outer())
    with pytest.raises(ConfigError, match=message):
        check_numbers(settings)


@config
class Loose:
    rate: float = 1
    on: bool = False


def test_a_float_may_be_given_as_an_integer_and_the_other_way_round():
    check_numbers(Outer(scale=2, inner=Inner(rate=0)))
    check_numbers(Loose(rate=0.5, on=True))
    check_numbers(Outer(scale=jnp.ones(3), inner=Inner(rate=jnp.zeros(3))))  # type: ignore[arg-type]

"""A region is parsed as a comparison expression; everything else is rejected with the place of the error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.explore.region import Region, check_not_empty, describe, inside, parse_region

STATES = np.random.default_rng(0).uniform(-3, 3, (500, 3)).astype(np.float32)
X, Y, Z = STATES.T


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x>0", X > 0),
        ("s2 <= 0.5", Z <= 0.5),
        ("x > 0 and y > 0 or s2 > 2", ((X > 0) & (Y > 0)) | (Z > 2)),
        ("x > 0 and (y > 0 or s2 > 2)", (X > 0) & ((Y > 0) | (Z > 2))),
        ("not x > 0", ~(X > 0)),
        ("not not x > 0", X > 0),
        ("-1 < x <= 2", (X > -1) & (X <= 2)),
        ("-1 < x < y < 2", (X > -1) & (X < Y) & (Y < 2)),
        ("x + 2*y - s2/2 > -(1.5e0 - x)", X + 2 * Y - Z / 2 > -(1.5 - X)),
        ("x - y - 1 > 0", X - Y - 1 > 0),
        ("(x + 1) * y >= .5", (X + 1) * Y >= 0.5),
        ("abs(x) < 1 and abs(y - 1) < 1", (np.abs(X) < 1) & (np.abs(Y - 1) < 1)),
        ("x == x and x != y", X == X),
        ("((x)) > ((0))", X > 0),
        ("x / 0 > 1", X > 0),
        ("  x\n > \t0 ", X > 0),
        ("x>0and y>0", (X > 0) & (Y > 0)),
        ("0 < 1 < x != y", X > 1),
        ("+x > - - 1", X > 1),
        ("x" + " + x" * 120 + " > 0", X > 0),
        ("not (x > 0 or y > 0) or abs(-s2) >= 2.", ~((X > 0) | (Y > 0)) | (np.abs(Z) >= 2)),
    ],
)
def test_values_agree_with_numpy(text, expected):
    np.testing.assert_array_equal(inside(parse_region(text, 3), STATES), expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "x",
        "3",
        "x +",
        "x > ",
        "> 0",
        "x > 0)",
        "(x > 0",
        "x > 0 y > 0",
        "x > 0 and",
        "x = 0",
        "x > 0 and y",
        "not x",
        "(x > 0) > 1",
        "(x > 0) + 1 > 0",
        "abs(x > 0) > 0",
        "x ** 2 > 1",
        "x > 1e999",
        "q > 0",
        "radius > 0",
        "__import__('os').system('true')",
        "x > 0 if y else 0",
        "lambda: x > 0",
        "x > 0; y > 0",
        "[x] > 0",
        "x.real > 0",
        "x > 0 # all",
        "exec > 0",
        "x ≥ 0",
        "x > 0" + " and x > 0" * 100,
        "(" * 60 + "x" + ")" * 60 + "> 0",
        "-" * 60 + "x > 0",
        "not " * 60 + "x > 0",
        "x > 0) or (y > 0",
        "x > True",
        "x > 1j",
        "x > 'a'",
        "x > 0, y > 0",
        "x in y",
        "x := 1",
        "x // 1 > 0",
        "~x > 0",
        "abs(x, y) > 0",
        "abs(*x) > 0",
        "abs(x=1) > 0",
        "abs > 0",
        "9 ** 9 ** 9 ** 9 > x",
        "x > " + "9" * 400,
        "s99999 > 0",
        "x > 0\\",
        "x\0 > 0",
        "\uff58 > 0",
        "(x > 0) == (y > 0)",
    ],
)
def test_rejects_everything_but_comparison_expressions(text):
    with pytest.raises(ConfigError, match="region"):
        parse_region(text, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("x + y", "it compares nothing"),
        ("x > 0 and q > 1", r"unknown variable 'q' \(available: x, y, s0, s1, ...\) \(column 11\)"),
        ("x > 0 and y", r"'y' is a number, not a comparison \(column 11\)"),
        ("1 < (x > 0)", r"'x > 0' is a comparison, not a number \(column 6\)"),
        ("x ** 2 > 1", r"'x \*\* 2' is none of numbers, variables, .* \(column 1\)"),
        ("x > y.real", r"'y.real' is none of .* \(column 5\)"),
        ("x > 1e999", r"the number is too large \(column 5\)"),
        ("x > 0 # all", r"unexpected character '#' \(column 7\)"),
        ("y = 0", r"invalid syntax at '= 0' \(column 3\)"),
        ("x > 0 and", r"invalid syntax at 'its end' \(column 10\)"),
        ("(x > 0", r"'\(' was never closed at '\(x > 0' \(column 1\)"),
        ("(" * 60 + "x" + ")" * 60 + "> 0", "parentheses are nested more than 40 deep"),
        ("not " * 60 + "x > 0", "nested more than 40 deep"),
        ("x > 0" + " and x > 0" * 100, r"at most 500 characters \(got 1005\)"),
    ],
)
def test_messages_say_what_is_wrong_and_where(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_region(text, 2)


def test_nothing_is_executed(tmp_path):
    target = tmp_path / "created"
    for text in (f"open('{target}', 'w') > x", f"__import__('pathlib').Path('{target}').touch() or x > 0"):
        with pytest.raises(ConfigError, match="is none of"):
            parse_region(text, 2)
    assert not target.exists()


def test_messages_list_the_dimensions_of_the_env():
    with pytest.raises(ConfigError, match=r"dimension 2.*have 2 \(x, y, s0, s1\)"):
        parse_region("s2 > 0", 2)
    with pytest.raises(ConfigError, match=r"dimension 1.*have 1 \(x, s0\)"):
        parse_region("y > 0", 1)


def test_regions_are_hashable_and_jit():
    assert parse_region("x>0", 2) == Region("x>0")
    assert hash(parse_region("x>0", 2)) == hash(Region("x>0"))
    traces = []

    @jax.jit
    def f(state):
        traces.append(1)
        return Region("x>0 and y<0")(state)

    assert bool(f(jnp.array([1.0, -1.0])))
    assert not bool(f(jnp.array([1.0, 1.0])))
    assert len(traces) == 1
    assert f(jnp.array([1.0, 1.0])).dtype == bool


def test_an_empty_region_is_rejected_with_the_ranges_of_the_states():
    check_not_empty(Region("x>0"), STATES, "the states")
    check_not_empty(None, STATES, "the states")
    with pytest.raises(ConfigError, match=r"empty.*the 500 states.*s0 from -"):
        check_not_empty(Region("x>100"), STATES, "the 500 states")


def test_a_callable_is_a_region():
    def right(state):
        return state[0] > 0

    np.testing.assert_array_equal(inside(right, STATES), X > 0)
    assert describe(right).endswith("right")
    assert describe(None) == ""

"""A region restricts p(s) to the states that a user cares about: a prior over behaviours (Section 4 of the paper).

On the command line a region is text such as ``"x > 0 and not (y < -1)"``. Python's own parser reads it (`ast.parse`),
a whitelist of syntax nodes turns it into array operations, and nothing is ever evaluated as Python. The language:

* numbers, the state's dimensions ``s0``, ``s1``, ..., and ``x`` and ``y`` for the first two;
* ``+ - * /``, ``abs(...)`` and parentheses;
* ``< <= > >= == !=``, chained as in ``-1 < x <= 2``; ``and``, ``or``, ``not``.

In Python code a region can be any jittable predicate of one state.
"""

import ast
import dataclasses
import functools
import itertools
import operator
import re
import sys
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from edl.config import ConfigError

Predicate = Callable[[Float[Array, " s"]], Bool[Array, ""]]
"""Whether one state belongs to a region."""

CALLABLE = "function "
"""Prefix of the description of a region that is a Python callable."""
MAX_LENGTH = 500
"""Maximum number of characters."""
MAX_DEPTH = 40
"""Maximum nesting of parentheses, and of signs and ``not``."""
EXAMPLES = "Write for example 'x > 0', or '-1 < y <= 2 and not s0 + s1 > 3'."

NAMED_AXES = {"x": 0, "y": 1}
FUNCTIONS: dict[str, Callable] = {"abs": jnp.abs}
SIGNS: dict[type, Callable] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
UNARY = SIGNS | {ast.Not: jnp.logical_not}
ARITHMETIC: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
COMPARISONS: dict[type, Callable] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
LOGIC: dict[type, Callable] = {ast.And: jnp.logical_and, ast.Or: jnp.logical_or}


@dataclasses.dataclass(frozen=True)
class Region:
    """A predicate given as text. Regions with the same text are equal, so a region can be a static field."""

    text: str

    def __call__(self, state: Float[Array, " s"]) -> Bool[Array, ""]:
        """Whether ``state`` belongs to the region."""
        return jnp.asarray(_evaluate(_parse(self.text), state), bool)

    def __str__(self) -> str:
        return self.text


def parse_region(text: str, size: int) -> Region:
    """Parse a region over states of ``size`` dimensions; raise a `ConfigError` that says what is wrong and where."""
    names = (node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name) and node.id not in FUNCTIONS)
    too_large = sorted(axis for axis in map(_axis, names) if axis >= size)
    if too_large:
        raise ConfigError(
            f"region {text!r} uses dimension {too_large[0]}, but the states of this env have {size} "
            f"({_variables(size)}). Use only these."
        )
    return Region(text)


def inside(region: Predicate | None, states: Float[np.ndarray, "n s"]) -> Bool[np.ndarray, " n"]:
    """Which of the states belong to the region. Without a region, all of them do."""
    if region is None:
        return np.ones(len(states), bool)
    return np.asarray(jax.vmap(region)(jnp.asarray(states)))


def check_not_empty(region: Predicate | None, states: Float[np.ndarray, "n s"], what: str) -> None:
    """Reject a region that contains none of the ``states``; ``what`` names the states in the message."""
    if not inside(region, states).any():
        raise empty_region(region, np.min(states, axis=0), np.max(states, axis=0), what)


def empty_region(
    region: Predicate | None, low: Float[np.ndarray, " s"], high: Float[np.ndarray, " s"], what: str
) -> ConfigError:
    """The error for a region that contains none of the states, which lie between ``low`` and ``high``."""
    spans = ", ".join(f"s{i} from {a:.3g} to {b:.3g}" for i, (a, b) in enumerate(zip(low, high, strict=True)))
    return ConfigError(
        f"region {describe(region)!r} is empty: it contains none of {what} ({spans}). Choose a larger region."
    )


def describe(region: Predicate | None) -> str:
    """The form of a region in a saved config: its text, or the name of a callable."""
    if region is None:
        return ""
    return region.text if isinstance(region, Region) else f"{CALLABLE}{getattr(region, '__qualname__', 'region')}"


@functools.lru_cache(maxsize=128)
def _parse(text: str) -> ast.expr:
    """The syntax tree of a region; every node in it has been checked."""
    if len(text) > MAX_LENGTH:
        raise ConfigError(f"a region must have at most {MAX_LENGTH} characters (got {len(text)}). Shorten it.")
    line = re.sub(r"\s", " ", text).strip()
    tree = _syntax_tree(line)
    if not _check(tree, line):
        raise _error(line, "it compares nothing")
    return tree


def _syntax_tree(text: str) -> ast.expr:
    """The text as a Python syntax tree. First reject what the parser would misread, or nest too deeply."""
    if not text:
        raise _error(text, "it is empty")
    for position, character in enumerate(text):
        # Python would read '#' as a comment, and letters of other alphabets as their Latin lookalikes.
        if character == "#" or not character.isascii():
            raise _error(text, f"unexpected character {character!r}", position)
    depths = itertools.accumulate((character == "(") - (character == ")") for character in text)
    if max(depths) > MAX_DEPTH:
        raise _error(text, f"parentheses are nested more than {MAX_DEPTH} deep")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python deprecates '0and', which is clear enough here
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        position = (error.offset or len(text) + 1) - 1
        problem = re.split("[.;] ", error.msg)[0]  # the rest is advice for Python programs
        raise _error(text, f"{problem} at {text[position:][:12] or 'its end'!r}", position) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise _error(text, f"it cannot be parsed ({error})") from None


def _check(node: ast.expr, text: str, depth: int = 0) -> bool:
    """Reject what is not in the language. Return whether the node is a truth value; otherwise it is a number.

    A sum of hundreds of terms is hundreds of nodes deep, so this function and `_evaluate` use one frame per node.
    """
    if depth > MAX_DEPTH:
        raise _error(text, f"signs and 'not' are nested more than {MAX_DEPTH} deep", node.col_offset)
    parts, of_truths, is_truth = [], False, False
    match node:
        case ast.BoolOp(values=parts):
            of_truths, is_truth = True, True
        case ast.UnaryOp(op=ast.Not(), operand=part):
            parts, of_truths, is_truth = [part], True, True
        case ast.UnaryOp(op=op, operand=part) if type(op) in SIGNS:
            parts = [part]
        case ast.BinOp(op=op, left=left, right=right) if type(op) in ARITHMETIC:
            parts = [left, right]
        case ast.Compare(ops=ops, left=left, comparators=others) if all(type(op) in COMPARISONS for op in ops):
            parts, is_truth = [left, *others], True
        case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if name in FUNCTIONS:
            parts = [part]
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if abs(value) > sys.float_info.max:
                raise _error(text, "the number is too large", node.col_offset)
        case ast.Name(id=name):
            if name not in NAMED_AXES and not re.fullmatch(r"s\d{1,4}", name):
                raise _error(text, f"unknown variable {name!r} (available: x, y, s0, s1, ...)", node.col_offset)
        case _:
            allowed = "numbers, variables, + - * /, abs(), comparisons, 'and', 'or' and 'not'"
            raise _error(text, f"{_source(node, text)!r} is none of {allowed}", node.col_offset)
    for part in parts:
        if _check(part, text, depth + isinstance(node, ast.UnaryOp | ast.Call)) != of_truths:
            problem = "a number, not a comparison" if of_truths else "a comparison, not a number"
            raise _error(text, f"{_source(part, text)!r} is {problem}", part.col_offset)
    return is_truth


def _evaluate(node: ast.expr, state: Float[Array, " s"]) -> Array:
    """The value of a checked syntax tree at one state."""
    match node:
        case ast.BoolOp(op=op, values=[first, *others]):
            value = _evaluate(first, state)
            for other in others:
                value = LOGIC[type(op)](value, _evaluate(other, state))
            return value
        case ast.UnaryOp(op=op, operand=part):
            return UNARY[type(op)](_evaluate(part, state))
        case ast.BinOp(op=op, left=left, right=right):
            return ARITHMETIC[type(op)](_evaluate(left, state), _evaluate(right, state))
        case ast.Compare(ops=ops, left=left, comparators=others):
            value, holds = _evaluate(left, state), jnp.bool_(True)
            for op, other in zip(ops, others, strict=True):
                value, previous = _evaluate(other, state), value
                holds &= COMPARISONS[type(op)](previous, value)
            return holds
        case ast.Call(func=ast.Name(id=name), args=[part]):
            return FUNCTIONS[name](_evaluate(part, state))
        case ast.Constant(value=value):
            return jnp.float32(value)
        case ast.Name(id=name):
            return state[_axis(name)]
    raise AssertionError(f"{ast.dump(node)} was not checked")


def _axis(name: str) -> int:
    """The dimension of the state that a variable stands for."""
    return NAMED_AXES[name] if name in NAMED_AXES else int(name[1:])


def _error(text: str, problem: str, position: int | None = None) -> ConfigError:
    place = "" if position is None else f" (column {position + 1})"
    return ConfigError(f"region {text!r}: {problem}{place}. {EXAMPLES}")


def _source(node: ast.expr, text: str) -> str:
    """The part of the text that a node was parsed from."""
    return text[node.col_offset : node.end_col_offset]


def _variables(size: int) -> str:
    names = [f"s{i}" for i in range(min(size, 4))] + (["..."] if size > 4 else [])
    return ", ".join([*list(NAMED_AXES)[:size], *names])

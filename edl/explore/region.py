"""A region restricts p(s) to the states a user cares about: their prior over behaviours (Section 4 of the paper).

From the command line a region is text such as ``"x > 0 and not (y < -1)"``. It is read by the small parser below into
array operations, and never evaluated as Python. From the API any jittable predicate of one state will do.

    disjunction  := conjunction ("or" conjunction)*
    conjunction  := negation ("and" negation)*
    negation     := "not" negation | comparison
    comparison   := sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)*
    sum          := product (("+" | "-") product)*
    product      := factor (("*" | "/") factor)*
    factor       := ("+" | "-") factor | number | variable | ["abs"] "(" disjunction ")"
"""

import dataclasses
import functools
import operator
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from edl.config import ConfigError

Predicate = Callable[[Float[Array, " s"]], Bool[Array, ""]]
"""Whether one state belongs to a region."""

CALLABLE = "function "
"""How the description of a region starts that is not text."""
LONGEST = 500
DEEPEST = 40
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
NAMED_AXES = {"x": 0, "y": 1}
TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<symbol><=|>=|==|!=|[<>+\-*/()]))",
    re.ASCII,
)


@dataclasses.dataclass(frozen=True)
class Region:
    """A predicate given as text. Two regions of the same text are equal, so that a region can be a static field."""

    text: str

    def __call__(self, state: Float[Array, " s"]) -> Bool[Array, ""]:
        """Whether ``state`` belongs to the region."""
        return jnp.asarray(_parse(self.text).evaluate(state), bool)

    def __str__(self) -> str:
        """Its text."""
        return self.text


def parse_region(text: str, size: int) -> Region:
    """Read a region over states of ``size`` dimensions; a `ConfigError` says what in it cannot be read."""
    beyond = sorted(axis for axis in _parse(text).axes if axis >= size)
    if beyond:
        raise ConfigError(
            f"region {text!r} uses dimension {beyond[0]}: the states of this world have {size} ({_variables(size)}). "
            "Use only these."
        )
    return Region(text)


def inside(region: Predicate | None, states: Float[np.ndarray, "n s"]) -> Bool[np.ndarray, " n"]:
    """Which of the states belong to the region; all of them where there is none."""
    if region is None:
        return np.ones(len(states), bool)
    return np.asarray(jax.vmap(region)(jnp.asarray(states)))


def check_not_empty(region: Predicate | None, states: Float[np.ndarray, "n s"], whose: str) -> None:
    """Refuse a region in which none of the ``states`` lie; ``whose`` names them in the message."""
    if not inside(region, states).any():
        low, high = np.min(states, axis=0), np.max(states, axis=0)
        spans = ", ".join(f"s{i} from {a:.3g} to {b:.3g}" for i, (a, b) in enumerate(zip(low, high, strict=True)))
        raise ConfigError(
            f"region {describe(region)!r} is empty: it holds none of {whose} ({spans}). Widen it until it holds some."
        )


def describe(region: Predicate | None) -> str:
    """What a saved config says of a region: its text, or the name of a callable."""
    if region is None:
        return ""
    return region.text if isinstance(region, Region) else f"{CALLABLE}{getattr(region, '__qualname__', 'region')}"


class _Node(NamedTuple):
    """A parsed expression: what it computes from a state, of which dimensions, and whether that is a truth value."""

    evaluate: Callable[[Array], Array]
    axes: frozenset[int]
    truth: bool


@functools.lru_cache(maxsize=128)
def _parse(text: str) -> _Node:
    if len(text) > LONGEST:
        raise ConfigError(f"region of {len(text)} characters: at most {LONGEST} are read. Shorten it.")
    parser = _Parser(text)
    node = parser.disjunction(0)
    if parser.token:
        raise parser.wrong(f"unexpected {parser.token!r}")
    if not node.truth:
        raise parser.wrong("nothing is compared in it")
    return node


class _Parser:
    """Recursive descent over the tokens of a region; one method per rule of the grammar."""

    def __init__(self, text: str):
        self.text, self.position, self.token, self.kind = text, 0, "", None
        self.advance()

    def wrong(self, why: str) -> ConfigError:
        return ConfigError(
            f"region {self.text!r}: {why}, and a region is a plain comparison expression. "
            "Write for example 'x > 0', or '-1 < y <= 2 and not s0 + s1 > 3'."
        )

    def advance(self) -> str:
        """Return the current token and move to the next one; the empty token is the end."""
        token = self.token
        rest = self.text[self.position :]
        if not rest.strip():
            self.token, self.kind = "", None
            return token
        match = TOKEN.match(rest)
        if match is None:
            raise self.wrong(f"cannot read {rest.strip()[:12]!r}")
        self.position += match.end()
        self.kind = match.lastgroup
        self.token = match.group(match.lastgroup)  # type: ignore[arg-type]
        return token

    def expect(self, token: str) -> None:
        if self.token != token:
            raise self.wrong(f"{token!r} is missing before {self.token or 'the end'!r}")
        self.advance()

    def both(self, operation: Callable, left: _Node, right: _Node, *, of_truths: bool, truth: bool) -> _Node:
        """Combine two operands that must both be truth values, or both be numbers."""
        if left.truth != of_truths or right.truth != of_truths:
            raise self.wrong("it mixes numbers and truth values")
        return _Node(lambda s: operation(left.evaluate(s), right.evaluate(s)), left.axes | right.axes, truth)

    def disjunction(self, depth: int) -> _Node:
        if depth > DEEPEST:
            raise self.wrong(f"it is nested more than {DEEPEST} deep")
        node = self.conjunction(depth)
        while self.token == "or":
            self.advance()
            node = self.both(jnp.logical_or, node, self.conjunction(depth), of_truths=True, truth=True)
        return node

    def conjunction(self, depth: int) -> _Node:
        node = self.negation(depth)
        while self.token == "and":
            self.advance()
            node = self.both(jnp.logical_and, node, self.negation(depth), of_truths=True, truth=True)
        return node

    def negation(self, depth: int) -> _Node:
        if self.token != "not":
            return self.comparison(depth)
        self.advance()
        if depth > DEEPEST:
            raise self.wrong(f"it is nested more than {DEEPEST} deep")
        node = self.negation(depth + 1)
        if not node.truth:
            raise self.wrong("'not' stands before a number")
        return _Node(lambda s: jnp.logical_not(node.evaluate(s)), node.axes, True)

    def comparison(self, depth: int) -> _Node:
        left, result = self.sum(depth), None
        while self.token in COMPARISONS:
            operation = COMPARISONS[self.advance()]
            right = self.sum(depth)
            link = self.both(operation, left, right, of_truths=False, truth=True)
            result = link if result is None else self.both(jnp.logical_and, result, link, of_truths=True, truth=True)
            left = right
        return left if result is None else result

    def sum(self, depth: int) -> _Node:
        node = self.product(depth)
        while self.token in ("+", "-"):
            operation = ARITHMETIC[self.advance()]
            node = self.both(operation, node, self.product(depth), of_truths=False, truth=False)
        return node

    def product(self, depth: int) -> _Node:
        node = self.factor(depth)
        while self.token in ("*", "/"):
            operation = ARITHMETIC[self.advance()]
            node = self.both(operation, node, self.factor(depth), of_truths=False, truth=False)
        return node

    def factor(self, depth: int) -> _Node:
        if depth > DEEPEST:
            raise self.wrong(f"it is nested more than {DEEPEST} deep")
        kind, token = self.kind, self.advance()
        if token in ("+", "-"):
            sign, node = float(token + "1"), self.factor(depth + 1)
            return self.both(operator.mul, _number(sign), node, of_truths=False, truth=False)
        if token == "(":
            node = self.disjunction(depth + 1)
            self.expect(")")
            return node
        if token == "abs":
            self.expect("(")
            node = self.disjunction(depth + 1)
            self.expect(")")
            if node.truth:
                raise self.wrong("'abs' takes a number")
            return _Node(lambda s: jnp.abs(node.evaluate(s)), node.axes, False)
        if kind == "number" and np.isfinite(float(token)):
            return _number(float(token))
        if kind == "name":
            return self.variable(token)
        raise self.wrong(f"a number or a variable is wanted instead of {token or 'the end'!r}")

    def variable(self, name: str) -> _Node:
        if re.fullmatch(r"s\d{1,4}", name):
            axis = int(name[1:])
        elif name in NAMED_AXES:
            axis = NAMED_AXES[name]
        else:
            raise self.wrong(f"unknown variable {name!r} (known: x, y, s0, s1, ...)")
        return _Node(lambda s: s[axis], frozenset([axis]), False)


def _number(value: float) -> _Node:
    return _Node(lambda s: jnp.float32(value), frozenset(), False)


def _variables(size: int) -> str:
    names = [f"s{i}" for i in range(min(size, 4))] + (["..."] if size > 4 else [])
    return ", ".join([*list(NAMED_AXES)[:size], *names])

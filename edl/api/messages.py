"""Error messages for Python: they name arguments where those of the command line name flags."""

import contextlib
import re
from collections.abc import Iterator

from edl.config import ConfigError

FLAG = re.compile(r"--([a-z][\w.-]*\w)(?: ([A-Z]+\b|[a-z_]+(?=[.,;)]|$)))?")
"""A flag, and its value or placeholder if one follows: ``--out DIR``, ``--learner.distance euclidean``."""


@contextlib.contextmanager
def python_messages() -> Iterator[None]:
    """Raise every `ConfigError` of the block again with its flags as Python arguments."""
    try:
        yield
    except ConfigError as error:
        text = in_python(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from error.__cause__


def in_python(message: str) -> str:
    """``--num-skills`` becomes ``num_skills``, ``--resume`` becomes ``resume=True``, ``--out DIR`` is ``out=DIR``."""
    return FLAG.sub(_argument, message)


def _argument(found: re.Match[str]) -> str:
    name, value = found[1].replace("-", "_"), found[2]
    if value is None:
        return "resume=True" if name == "resume" else name
    return f"{name}={value if value.isupper() else repr(value)}"

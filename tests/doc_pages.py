"""The code blocks of the pages in docs/."""

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, the file name after the language (or ""), and its text."""

    language: str
    file: str
    text: str


def blocks(path: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(path.read_text("utf-8"))]

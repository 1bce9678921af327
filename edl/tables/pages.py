"""Tables in pages: blocks between two comments are filled with a view of a table.

    <!-- table: methods/bottleneck -->
    ...
    <!-- end -->

The name is that of a table, or ``table/view``. A block of a table without a JSON file is left alone. The Markdown files
next to the JSON files have whole tables, and are filled too.
"""

import re
from pathlib import Path

from edl.config import ConfigError, check_name
from edl.runs.store import Folder
from edl.tables import TABLES
from edl.tables.make import markdown_of, read_rows

BLOCK = re.compile(r"(?P<begin><!-- table: (?P<name>[\w/]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
DEFAULT_PAGES = ("README.md", "docs/results.md", "docs/metrics.md", "docs/explorers.md", "docs/robots.md")


def fill(text: str, folder: Folder, whose: str) -> str:
    """The text of a page with all of its blocks filled from the JSON files in ``folder``."""
    if text.count("<!-- table:") != len(BLOCK.findall(text)):
        raise ConfigError(f"a block in {whose} that starts with '<!-- table: NAME -->' must end with '<!-- end -->'.")

    def filled(block: re.Match) -> str:
        content = block_content(block["name"], folder, whose)
        return block[0] if content is None else f"{block['begin']}{content}\n{block['end']}"

    return BLOCK.sub(filled, text)


def block_content(name: str, folder: Folder, whose: str) -> str | None:
    """The content of a block; None if its table was not measured."""
    table, _, view = name.partition("/")
    check_name(table, TABLES, f"table in {whose}:")
    check_name(view, TABLES[table].views, f"view of the table {table!r} in {whose}:")
    rows = read_rows(folder, table)
    return TABLES[table].views[view](rows) if rows else None


def fill_pages(pages: list[Path], folder: Folder, *, write: bool = True) -> list[Path]:
    """Fill the blocks of all pages, and return the pages that change. Without ``write``, they stay as they are."""
    changed = []
    for page in pages:
        before = page.read_text("utf-8")
        after = fill(before, folder, str(page))
        if after != before:
            changed.append(page)
            if write:
                page.write_text(after, "utf-8")
    return changed


def fill_files(folder: Folder, *, write: bool = True) -> list[Path]:
    """Write the Markdown files of all tables that have a JSON file, and return those that change."""
    changed = []
    for name in TABLES:
        rows, file = read_rows(folder, name), f"{name}.md"
        if not rows:
            continue
        text = markdown_of(name, rows).encode()
        if not folder.has(file) or folder.read(file) != text:
            changed.append(folder.place(file))
            if write:
                folder.write(file, text)
    return changed

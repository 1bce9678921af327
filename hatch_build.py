"""Build hook: the README of a package index, which shows it outside of the repository, gets absolute links.

The address is `Source` in `[project.urls]` of pyproject.toml. Without it, the README is taken as it is.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
HTML = re.compile(r'(?P<attribute>src|href)="(?P<target>[^"]+)"')
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.IGNORECASE)
"""Targets that are no paths in the repository: other addresses, and places in the README itself."""


class AbsoluteLinks(MetadataHookInterface):
    """Sets the field `readme`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md and replace its links."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        source, version = metadata.get("urls", {}).get("Source"), read_version(Path(self.root))
        text = text if source is None else with_absolute_links(text, source, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def read_version(root: Path) -> str:
    """The version in `edl/__init__.py`: importing it would need the dependencies."""
    found = re.search(r'^__version__ = "(.+)"$', (root / "edl" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    assert found is not None, "edl/__init__.py has no __version__"
    return found.group(1)


def with_absolute_links(text: str, source: str, version: str) -> str:
    """Links to files become links to the same files at the tag of the version; those of a development version, at HEAD.

    Pictures become links to the raw files.
    """
    tag = "HEAD" if "dev" in version else f"v{version}"

    def address(target: str, raw: bool) -> str:
        if ELSEWHERE.match(target):
            return target
        return f"{source.rstrip('/')}/{'raw' if raw else 'blob'}/{tag}/{target.removeprefix('./')}"

    def link(found: re.Match[str]) -> str:
        return f"{found['image']}[{found['text']}]({address(found['target'], bool(found['image']))})"

    def attribute(found: re.Match[str]) -> str:
        return f'{found["attribute"]}="{address(found["target"], found["attribute"] == "src")}"'

    return HTML.sub(attribute, LINK.sub(link, text))

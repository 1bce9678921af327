"""manifest.json: the format of a run folder, and a hash of every file that the run wrote.

    {"format": 1, "files": {"config.json": ["<sha256>"], ...}, "checksum": "<sha256 of format and files>"}

The entry of a file is written before the file is replaced, and lists the hashes of the new and of the old contents. So
a crash at any moment leaves every file with a hash that its entry lists.
"""

import hashlib
import json
from typing import Any

from edl.runs.errors import RetryableError

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the layout of a run folder. A folder without a manifest was written before there were any."""

ABSENT = "absent"
"""In the place of a hash: a crash may have left the file unwritten."""
Hashes = dict[str, list[str]]
"""The hashes that each file may have, newest first."""


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def dump(files: Hashes) -> bytes:
    """The contents of manifest.json."""
    content = {"format": FORMAT, "files": dict(sorted(files.items()))}
    return (json.dumps({**content, "checksum": _checksum(content)}, indent=1) + "\n").encode()


def parse(data: bytes, whose: str) -> Hashes:
    """The hashes in manifest.json; a `RetryableError` if it is damaged or was written by a later version."""
    try:
        content = json.loads(data)
        checksum, files = content.pop("checksum"), content["files"]
        whole = checksum == _checksum(content) and all(map(_is_entry, files.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole, content, files = False, {}, {}
    if not whole:
        raise RetryableError(
            f"{whose} is damaged. Restore it from a copy, or delete it: the run can then be used, but changes to its "
            "files are no longer found."
        )
    if content["format"] != FORMAT:
        raise RetryableError(
            f"{whose} has format {content['format']}, and this version of edl reads format {FORMAT}. "
            "Use the version of edl that wrote the run."
        )
    return files


def _checksum(content: Any) -> str:
    return hash_of(json.dumps(content, sort_keys=True).encode())


def _is_entry(hashes: Any) -> bool:
    return isinstance(hashes, list) and all(isinstance(each, str) for each in hashes)
